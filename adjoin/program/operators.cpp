#include "adjoin/program/operators.hpp"

#include <algorithm>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/rules/operation.hpp"

namespace adjoin::program {
namespace {

/// What reaches files or memory, changes what a tensor is, or asks for a value.
constexpr std::string_view kRefused =
    "from_file set_ set_data data resize_ resize_as_ resize resize_as set record_stream retain_grad requires_grad_ "
    "backward pin_memory is_pinned rename rename_ output_nr is_leaf retains_grad resize_as_sparse_ coalesce "
    "copy_sparse_to_sparse_ sspaddmm hspmm smm dense_dim align_to align_as align_tensors refine_names int_repr "
    "empty_quantized quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic dequantize "
    "choose_qparams_optimized";
/// Of libraries whose operators read memory that another of their operators packed, and of kinds of tensors that no program has.
constexpr std::string_view kRefusedBeginnings =
    "fbgemm_ mkldnn_ to_mkldnn miopen_ cudnn_ mps_ quantized_ sparse_ to_sparse nested_ is_vulkan unsafe_ crow_ ccol_";
/// Operators that LibTorch keeps for itself and that decomposed graphs have.
constexpr std::string_view kAllowedPrivate =
    "_softmax _log_softmax _to_copy _unsafe_view _native_batch_norm_legit _assert_async _reshape_alias "
    "_adaptive_avg_pool2d _weight_norm _fused_rms_norm";

bool is_word_of(std::string_view words, std::string_view name) {
  return std::ranges::count(parts_of(words, ' '), name) > 0;
}

bool may_run(const c10::OperatorHandle& handle) {
  std::string_view name = handle.schema().name();
  if (!name.starts_with("aten::")) return false;
  name.remove_prefix(6);
  const auto& arguments = handle.schema().arguments();
  if (std::ranges::any_of(arguments, [](const c10::Argument& one) { return one.is_out(); })) return false;
  if (rules::known_rule(handle) != nullptr || is_word_of(kAllowedPrivate, name)) return true;
  if (name.starts_with("_") && !name.starts_with("__")) return false;
  const auto begins = parts_of(kRefusedBeginnings, ' ');
  if (std::ranges::any_of(begins, [&](std::string_view begin) { return name.starts_with(begin); })) return false;
  return !is_word_of(kRefused, name) && !name.starts_with("__i");
}

}  // namespace

c10::OperatorHandle operator_named(const std::string& target) {
  constexpr std::string_view kLead = "torch.ops.";
  const size_t space = kLead.size(), name = target.find('.', space), overload = target.rfind('.');
  require(target.starts_with(kLead) && name != target.npos && overload > name,
          [&] { return "expected an operator of LibTorch, got " + target; });
  const std::string last = target.substr(overload + 1);
  const c10::OperatorName full(target.substr(space, name - space) + "::" + target.substr(name + 1, overload - name - 1),
                               last == "default" ? "" : last);
  const auto found = c10::Dispatcher::singleton().findSchema(full);
  require(found.has_value(), [&] { return "LibTorch has no operator " + target.substr(space); });
  require(may_run(*found), [&] { return "the operator " + target.substr(space) + " may not be run from a file"; });
  return *found;
}

std::string way_of(const c10::OperatorHandle& handle) {
  if (rules::known_rule(handle) != nullptr) return "by a rule";
  const auto is_of_tensors = [](const c10::Argument& one) {
    return one.type()->str().find("Tensor") != std::string::npos;
  };
  if (std::ranges::none_of(handle.schema().arguments(), is_of_tensors)) return "on every rank";
  return rules::is_composite(handle) ? "as its parts" : "gathered";
}

std::string short_name(const c10::OperatorHandle& handle) {
  const auto& schema = handle.schema();
  std::string name = schema.name();
  if (const size_t colons = name.find("::"); colons != name.npos) name.replace(colons, 2, ".");
  return schema.overload_name().empty() ? name : name + "." + schema.overload_name();
}

std::optional<size_t> place_of(const c10::OperatorHandle& handle, const char* argument) {
  const auto& arguments = handle.schema().arguments();
  const auto found = std::ranges::find(arguments, argument, &c10::Argument::name);
  if (found == arguments.end()) return std::nullopt;
  return static_cast<size_t>(found - arguments.begin());
}

const c10::IValue* constant_of(const Node& node, const char* name) {
  if (!node.handle) return nullptr;
  const auto place = place_of(*node.handle, name);
  if (!place || node.arguments[*place].kind != Argument::Kind::constant) return nullptr;
  return &node.arguments[*place].constant;
}

}  // namespace adjoin::program
