#include <cstdio>

#include "adjoin/linalg/agreement.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/rules/call.hpp"

namespace adjoin::rules {
namespace {

/// "Double [2, 3] of hash 5f0c…".
std::string text_of(const at::Tensor& tensor) {
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(hash_of_bytes("checked mode", tensor)));
  return c10::toString(tensor.scalar_type()) + (" " + shape_text(tensor.sizes().vec()) + " of hash ") + hash;
}

}  // namespace

void check_plain_operands(const c10::FunctionSchema& schema, Arguments arguments, const Grid& grid) {
  if (!grid.world().checked() || !grid.has_me()) return;
  for (size_t i = 0; i < arguments.size(); ++i)
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined() || is_global(tensor) || !tensor.has_storage() || tensor.is_meta()) return;
      linalg::check_agreement(
          (schema.name() + " of a global tensor and a plain one, '" + schema.arguments()[i].name() + "'").c_str(),
          text_of(tensor), grid.group_of(grid.shape().ranks()));
    });
}

}  // namespace adjoin::rules
