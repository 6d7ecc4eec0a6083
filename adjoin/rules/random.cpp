#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/graph_task.h>

#include <map>

#include "adjoin/base/error.hpp"
#include "adjoin/base/philox.hpp"
#include "adjoin/nn/distributed/dropout.hpp"
#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {
namespace {

using torch::jit::Stack;

/// The number of the next random operation of a step, for `name`.
std::string next_draw(GlobalGrid& home, const std::string& name) {
  require(home.step.has_value(), [&] {
    return name + ": expected a step by which to draw; call forward of what distribute returned, or its begin";
  });
  require(home.draws_again || torch::autograd::get_current_graph_task_id() < 0, [&] {
    return name +
           ": expected a forward pass, but backward computes it again and would draw other numbers; use recomputed, "
           "or in Python give torch.utils.checkpoint the context_fn of what distribute returned";
  });
  return "operation " + std::to_string(home.drawn++);
}

/// Masks are drawn by the step and the number of random operations since it began: they are the same in every layout.
template <class Layer>
at::Tensor masked(const at::Tensor& x, const Layout& layout, double p, const std::string& name, GlobalGrid& home) {
  Layer layer(nn::DropoutOptions(p), next_draw(home, name));
  Step step = *home.step;
  step.training = true;
  return layer.forward({x, layout, home.grid, step}).local;
}

template <class Layer>
std::vector<Way> dropout(const Operation& operation) {
  const double p = operation.arguments[1].toDouble();
  const Layout x = operation.operands[0].layout;
  Way way{.reads = {x}, .makes = {x}};
  if (!operation.arguments[2].toBool() || p == 0) return {std::move(way)};
  way.kernel = [p, x, name = operation.name(), home = &operation.home](Arguments arguments) {
    return std::vector<at::Tensor>{masked<Layer>(arguments[0].toTensor(), x, p, name, *home)};
  };
  return {std::move(way)};
}

}  // namespace

at::Tensor dropped(const at::Tensor& x, const Layout& layout, double p, const std::string& name, GlobalGrid& home) {
  return masked<nn::DropoutImpl>(x, layout, p, name, home);
}

std::optional<c10::OperatorHandle> with_generator(const c10::OperatorHandle& handle, Stack& stack, GlobalGrid& home) {
  const auto place_in = [](const c10::FunctionSchema& schema) { return schema.argumentIndexWithName("generator"); };
  const c10::FunctionSchema& schema = handle.schema();
  const std::string& overload = schema.overload_name();
  std::optional<c10::OperatorHandle> taking = handle;
  if (!place_in(schema))  // LibTorch's names of overloads
    taking =
        c10::Dispatcher::singleton().findSchema({schema.name(), overload.empty()          ? "generator"
                                                                : overload == "low_dtype" ? "low_generator_dtype"
                                                                                          : overload + "_generator"});
  if (!taking) return {};
  const std::string number = next_draw(home, schema.name());
  const auto step = static_cast<uint64_t>(home.step->number);
  const PhiloxCounter words = philox({static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), 0, 0},
                                     philox_key(home.step->seed, number));
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{words[0]} << 32 | words[1]);
  std::map<std::string, c10::IValue> given;
  const std::vector<c10::IValue> values = torch::jit::pop(stack, schema.arguments().size());
  for (size_t i = 0; i < values.size(); ++i) given[schema.arguments()[i].name()] = values[i];
  if (c10::IValue& own = given["generator"]; own.isNone()) own = generator;
  for (const c10::Argument& argument : taking->schema().arguments()) stack.push_back(given.at(argument.name()));
  return taking;
}

void draw_alike(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
  const c10::FunctionSchema& schema = handle.schema();
  const auto place = schema.argumentIndexWithName("generator");
  if (place && !torch::jit::peek(*stack, static_cast<size_t>(*place), schema.arguments().size()).isNone())
    return carry_out_marked(handle, keys, stack);  // a part of one that got a generator: at::rand is empty and uniform_
  if (!is_composite(handle))
    if (const auto taking = with_generator(handle, *stack, *DrawsAlike::home()))
      return carry_out_marked(*taking, keys, stack);
  run_parts(handle, keys, stack);  // which draw
}

Table random_rules() {
  return {{{"dropout"}, dropout<nn::DropoutImpl>}, {{"feature_dropout"}, dropout<nn::ChannelDropoutImpl>}};
}

}  // namespace adjoin::rules
