#include "adjoin/parallel/weight_units.hpp"

#include <ATen/ops/clone.h>

#include <map>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::parallel {
namespace {

/// What parameters that are sent together have in common: the type, and the ranks that hold copies.
using Kin = std::pair<at::ScalarType, std::vector<int>>;
Kin kin_of(const nn::Parameter& parameter) {
  return {parameter.tensor.scalar_type(), nn::ranks_of_copies(parameter)};
}

/// Puts parameters that follow each other and may be sent together in one, up to this many bytes.
class Joined {
 public:
  Joined(const std::vector<nn::Parameter>& parameters, int64_t most_bytes)
      : parameters_(parameters), most_bytes_(most_bytes) {}

  /// Adds parameters that may be sent together, and stay so.
  void add(const std::vector<size_t>& together) {
    int64_t bytes = 0;
    for (const size_t i : together) bytes += static_cast<int64_t>(parameters_[i].tensor.nbytes());
    Open& open = open_[kin_of(parameters_[together[0]])];
    if (open.bytes + bytes > most_bytes_) close(open);
    open.members.insert(open.members.end(), together.begin(), together.end());
    open.bytes += bytes;
  }
  Members all() {
    for (auto& [kin, open] : open_) close(open);
    return std::move(closed_);
  }

 private:
  struct Open {
    std::vector<size_t> members;
    int64_t bytes = 0;
  };
  void close(Open& open) {
    if (!open.members.empty()) closed_.push_back(std::exchange(open, {}).members);
  }

  const std::vector<nn::Parameter>& parameters_;
  int64_t most_bytes_;
  std::map<Kin, Open> open_;
  Members closed_;
};

}  // namespace

Members reversed_buckets(const std::vector<nn::Parameter>& trained, int64_t most_bytes) {
  Joined joined(trained, most_bytes);
  for (size_t i = trained.size(); i-- > 0;) joined.add({i});
  return joined.all();
}

Members units_of(const std::vector<nn::Parameter>& parameters, int64_t most_bytes) {
  const auto module_of = [&](size_t i) { return parameters[i].name.substr(0, parameters[i].name.rfind('.') + 1); };
  Joined joined(parameters, most_bytes);
  for (size_t begin = 0, end = 0; begin < parameters.size(); begin = end) {
    std::map<Kin, std::vector<size_t>> own;
    for (; end < parameters.size() && module_of(end) == module_of(begin); ++end)
      own[kin_of(parameters[end])].push_back(end);
    for (const auto& [kin, members] : own) joined.add(members);
  }
  return joined.all();
}

void give_own_memory(const std::vector<nn::Parameter>& parameters, const std::string& who) {
  std::map<const void*, std::string> names;  // by memory
  for (const nn::Parameter& parameter : parameters) {
    at::Tensor tensor = parameter.tensor;
    if (tensor.numel() > 0) {
      const auto [at, is_new] = names.emplace(tensor.storage().unsafeGetStorageImpl(), parameter.name);
      require(is_new, [&] {
        return who + ": '" + at->second + "' and '" + parameter.name +
               "' are different tensors in one memory; expected one tensor for both, or a memory for each";
      });
    }
    const bool can_change = tensor.storage().resizable() && tensor.storage().allocator() != nullptr;
    const bool owns = can_change && !tensor.is_neg() && !tensor.is_conj() && tensor.is_contiguous() &&
                      tensor.storage().nbytes() == tensor.nbytes();
    if (!owns) tensor.set_data(tensor.clone(at::MemoryFormat::Contiguous));
  }
}

}  // namespace adjoin::parallel
