#include "adjoin/parallel/copies.hpp"

#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::parallel {
namespace {

int64_t hash_of_bytes(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.detach().resolve_conj().resolve_neg().contiguous();
  const auto* bytes = static_cast<const char*>(whole.const_data_ptr());
  std::vector<uint64_t> rest((whole.nbytes() % sizeof(uint64_t) != 0) ? 1 : 0);
  const size_t words = whole.nbytes() / sizeof(uint64_t);
  if (!rest.empty()) std::memcpy(rest.data(), bytes + words * sizeof(uint64_t), whole.nbytes() % sizeof(uint64_t));
  const auto seed = hash_of(std::span<const uint64_t>(rest));
  return static_cast<int64_t>(hash_of(std::span(reinterpret_cast<const uint64_t*>(bytes), words), seed));
}

/// Parameters whose copies the same workers hold.
struct CopiesOfGroup {
  Communicator copies;
  std::vector<std::string> names;
  std::vector<int64_t> hashes;
};

}  // namespace

Buffer buffer_of_reals(const at::Tensor& tensor) {
  return buffer(tensor.is_complex() ? at::view_as_real(tensor) : tensor);
}

void broadcast_piece(const nn::Parameter& parameter) {
  const at::NoGradGuard no_gradient;
  const at::Tensor values = parameter.tensor.contiguous();
  parameter.grid.group_of(parameter.layout.grid().ranks()).broadcast(buffer(values), 0);
  parameter.tensor.copy_(values);
}

void broadcast_parameters(const torch::nn::Module& module, const Communicator& group) {
  const at::NoGradGuard no_gradient;
  std::vector<at::Tensor> tensors = module.parameters();
  for (const at::Tensor& of_module : module.buffers()) tensors.push_back(of_module);
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = tensor.detach().contiguous();
    group.broadcast(buffer_of_reals(values), 0);
    if (!values.is_same(tensor)) tensor.detach().copy_(values);
  }
}

void check_copies(const std::vector<nn::Parameter>& parameters, const std::string& who) {
  std::map<std::vector<int>, CopiesOfGroup> groups;
  for (const nn::Parameter& parameter : parameters) {
    const Communicator copies = nn::copies_of(parameter);
    if (copies.size() == 1) continue;
    CopiesOfGroup& of_group = groups[nn::ranks_of_copies(parameter)];
    of_group.copies = copies;
    of_group.names.push_back(parameter.name);
    of_group.hashes.push_back(hash_of_bytes(parameter.tensor));
  }
  for (const auto& [ranks, of_group] : groups) {
    const size_t count = of_group.hashes.size();
    std::vector<int64_t> largest = of_group.hashes;  // and behind them the smallest, with all bits turned
    for (const int64_t hash : of_group.hashes) largest.push_back(~hash);
    of_group.copies.all_reduce(buffer(largest), Reduction::max);
    for (size_t i = 0; i < count; ++i)
      require(largest[i] == ~largest[count + i], [&, &names = of_group.names] {
        return who + ": the copies of '" + names[i] +
               "' differ between ranks; give all of them the weights of one, as " +
               "parallel::broadcast_parameters(module, group) does, or the same seed, as nn::seeded does";
      });
  }
}

}  // namespace adjoin::parallel
