#include "adjoin/parallel/copies.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <span>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::parallel {
namespace {

std::string tensor_text(const nn::Parameter& parameter) {
  const at::Tensor& tensor = parameter.tensor;
  const char* kind = parameter.is_buffer ? " (buffer)" : tensor.requires_grad() ? "" : " (requires no gradient)";
  return "'" + parameter.name + "' " + c10::str(tensor.sizes()) + " " + c10::toString(tensor.scalar_type()) + kind;
}

/// Gives all ranks the values of rank 0, which only reads its own: its memory may be read-only.
void broadcast_values(const at::Tensor& tensor, const Communicator& group) {
  const at::NoGradGuard no_gradient;
  const at::Tensor values = plain("broadcast", tensor.detach()).contiguous();
  group.broadcast(buffer_of_reals(values), 0);
  if (group.rank() != 0 && !values.is_alias_of(tensor)) tensor.detach().copy_(values);
}

/// Tells objects of different processes, or at different places of one, apart.
int64_t identity_of(const void* object) {
  static const auto process = static_cast<uint64_t>(std::random_device()()) << 32 ^ std::random_device()();
  const std::array<uint64_t, 2> both{process, reinterpret_cast<uint64_t>(object)};
  return static_cast<int64_t>(hash_of(std::span<const uint64_t>(both)));
}

std::string sharing_text(const std::string& who) {
  return who +
         ": ranks share one module's tensors; expected a module of each rank, made in the function that each rank runs";
}

/// Parameters whose copies are on the same workers.
struct CopiesOfGroup {
  Communicator copies;
  std::vector<std::string> names;
  std::vector<int64_t> hashes;
  int64_t identity = 0;  // of one of the tensors
};

}  // namespace

Communicator own_group(const Communicator& group) {
  return group.size() == 1 ? group : group.subset(all_ranks(group.size()));
}

void broadcast_piece(const nn::Parameter& parameter) {
  broadcast_values(parameter.tensor, parameter.grid.group_of(parameter.layout.grid().ranks()));
}

void broadcast_parameters(const torch::nn::Module& module, const Communicator& group) {
  std::vector<at::Tensor> tensors = module.parameters();
  for (const at::Tensor& of_module : module.buffers()) tensors.push_back(of_module);
  for (const at::Tensor& tensor : tensors) broadcast_values(tensor, group);
}

void check_copies(const std::vector<nn::Parameter>& parameters, const std::string& who) {
  std::map<std::vector<int>, CopiesOfGroup> groups;
  for (const nn::Parameter& parameter : parameters) {
    const Communicator copies = nn::copies_of(parameter);
    if (copies.size() == 1) continue;
    CopiesOfGroup& of_group = groups[nn::ranks_of_copies(parameter)];
    of_group.copies = copies;
    of_group.names.push_back(parameter.name);
    of_group.hashes.push_back(hash_of_bytes("copies", parameter.tensor));
    of_group.identity = identity_of(parameter.tensor.unsafeGetTensorImpl());
  }
  for (auto& [ranks, of_group] : groups) {
    of_group.hashes.push_back(of_group.identity);
    const size_t count = of_group.hashes.size();
    std::vector<int64_t> largest = of_group.hashes;  // followed by the smallest, with all bits inverted
    for (const int64_t hash : of_group.hashes) largest.push_back(~hash);
    of_group.copies.all_reduce(buffer(largest), Reduction::max);
    require(largest[count - 1] != ~largest.back(), [&] { return sharing_text(who); });
    for (size_t i = 0; i + 1 < count; ++i)
      require(largest[i] == ~largest[count + i], [&, &names = of_group.names] {
        return who + ": the copies of '" + names[i] +
               "' differ between ranks; give all of them the weights of one, as " +
               "parallel::broadcast_parameters(module, group) does, or the same seed, as nn::seeded does";
      });
  }
}

void check_same_module(const std::vector<nn::Parameter>& parameters, const std::string& who,
                       const Communicator& group) {
  std::string mine;
  for (const nn::Parameter& parameter : parameters) mine += tensor_text(parameter) + "\n";
  const void* first_tensor = parameters.empty() ? nullptr : parameters[0].tensor.unsafeGetTensorImpl();
  std::vector<int64_t> identities = numbers_of_all(identity_of(first_tensor), group);
  std::ranges::sort(identities);
  require(parameters.empty() || std::ranges::adjacent_find(identities) == identities.end(),
          [&] { return sharing_text(who); });
  const std::vector<int64_t> hashes = numbers_of_all(static_cast<int64_t>(hash_of(mine)), group);
  const auto other = std::find_if(hashes.begin(), hashes.end(), [&](int64_t hash) { return hash != hashes[0]; });
  if (other == hashes.end()) return;
  const auto rank = static_cast<int>(other - hashes.begin());
  const std::string first = text_from_rank(0, mine, group), second = text_from_rank(rank, mine, group);
  const auto differs = std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first - first.begin();
  const size_t begin = differs == 0 ? 0 : first.rfind('\n', static_cast<size_t>(differs) - 1) + 1;
  const auto line_of = [begin](const std::string& text) {
    return begin >= text.size() ? "nothing more" : text.substr(begin, text.find('\n', begin) - begin);
  };
  throw InvalidArgument(who + ": the modules of the ranks differ: rank 0 has " + line_of(first) + ", rank " +
                        std::to_string(rank) + " has " + line_of(second));
}

void join_buffers(const torch::nn::Module& module, double share, int first, const Communicator& group) {
  if (group.size() == 1) return;
  const at::NoGradGuard no_gradient;
  std::map<bool, std::vector<at::Tensor>> kinds;  // floating-point buffers under true
  for (const at::Tensor& values : module.buffers()) {
    const at::Tensor real = values.is_complex() ? at::view_as_real(values) : values;
    if (real.defined() && real.numel() > 0) kinds[real.is_floating_point()].push_back(real);
  }
  for (const auto& [is_floating, tensors] : kinds) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& values : tensors)
      flat.push_back(values.reshape({-1}).to(is_floating ? at::kDouble : at::kLong));
    at::Tensor joined = at::cat(flat);
    if (is_floating) {
      if (share == 0)
        joined.zero_();  // whatever its values are, even NaN
      else
        joined.mul_(share);
      group.all_reduce(buffer(joined));
    } else {
      group.broadcast(buffer(joined), first);
    }
    // Not a change for autograd, since a backward of an earlier forward may follow: batch norm's does not read them in training,
    // and otherwise they are equal already.
    const at::AutoDispatchBelowADInplaceOrView unversioned;
    for (const at::Tensor& values : tensors) {
      values.copy_(joined.narrow(0, 0, values.numel()).view(values.sizes()));
      joined = joined.narrow(0, values.numel(), joined.numel() - values.numel());
    }
  }
}

}  // namespace adjoin::parallel
