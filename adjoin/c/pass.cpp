#include <ATen/ATen.h>

#include "adjoin/c/arrays.hpp"
#include "adjoin/c/call.hpp"

namespace adjoin::c {
namespace {

Expected expected(const char* name, const Network& network, const Layout& layout, int64_t channels) {
  return {name, layout, network.blocks->world->group.rank(),
          network.net->blocks().order() == insitu::DimOrder::columns_first, channels};
}

struct Input {
  std::shared_ptr<Network> network;
  at::Tensor piece;
  int64_t batch = 1;
};

/// What forward and infer read and check on each rank before anything is sent.
Input input_of(Same& same, adjoin_network handle, int32_t inputs, const adjoin_array* in, int32_t outputs,
               const adjoin_array* out) {
  const auto network = object<Network>(handle);
  const insitu::Network& net = *network->net;
  const Layout from = net.input_layout(1), to = net.output_layout(1);
  const auto arrays = span_of("inputs", inputs, in), results = span_of("outputs", outputs, out);
  const Expected wanted = expected("inputs", *network, from, net.inputs());
  const int64_t batch = batch_of(wanted, arrays);
  if (outputs > 0) {
    const int64_t other = batch_of(expected("outputs", *network, to, net.outputs()), results);
    require(other == batch, "outputs: expected as many samples as the inputs have");
  }
  same << batch << (outputs > 0);
  return {network, read(wanted, arrays, net.type()), batch};
}

void write_output(const Network& network, const at::Tensor& piece, int32_t outputs, const adjoin_array* out) {
  if (outputs == 0) return;
  const Layout layout = network.net->output_layout(1);
  write(expected("outputs", network, layout, network.net->outputs()), span_of("outputs", outputs, out), piece);
}

/// Arrays like the outputs of a pass.
at::Tensor like_output(const Pass& pass, const char* name, int32_t count, const adjoin_array* arrays) {
  const Layout layout = pass.network->net->output_layout(1);
  const Expected wanted = expected(name, *pass.network, layout, pass.network->net->outputs());
  const auto given = span_of(name, count, arrays);
  require(batch_of(wanted, given) == pass.pass.batch(),
          [&] { return std::string(name) + ": expected as many samples as the pass has"; });
  return read(wanted, given, pass.network->net->type());
}

at::Tensor weights_of(const Pass& pass, const adjoin_array* array) {
  if (!array) return {};
  const Layout layout = pass.network->net->output_layout(1);
  const Expected wanted = expected("weights", *pass.network, layout, 1);
  const int64_t batch = batch_of(wanted, {array, 1});
  require(batch == 1 || batch == pass.pass.batch(), "weights: expected one sample, or as many as the pass has");
  return read(wanted, {array, 1}, pass.network->net->type());
}

}  // namespace
}  // namespace adjoin::c

using namespace adjoin;
using namespace adjoin::c;

extern "C" {

int adjoin_infer(adjoin_network network, int32_t inputs, const adjoin_array* in, int32_t outputs,
                 const adjoin_array* out) {
  return guarded([&] {
    const Input input =
        agreed("adjoin_infer", [&](Same& same) { return input_of(same, network, inputs, in, outputs, out); });
    together(world_of(*input.network), [&] {
      const insitu::Pass pass(*input.network->net, input.piece, input.batch, {.trains = false, .records = false});
      write_output(*input.network, pass.output(), outputs, out);
    });
  });
}

int adjoin_forward(adjoin_network network, int32_t inputs, const adjoin_array* in, int32_t outputs,
                   const adjoin_array* out, int32_t input_gradients, adjoin_pass* pass) {
  return guarded([&] {
    const Input input = agreed("adjoin_forward", [&](Same& same) {
      require(pass != nullptr, "pass: expected a place for the handle, got null");
      same << input_gradients;
      return input_of(same, network, inputs, in, outputs, out);
    });
    c::Network& of = *input.network;
    together(world_of(of), [&] {
      const insitu::Pass::Options options{.input_gradients = input_gradients != 0,
                                          .step = {.seed = of.seed, .number = of.passes++}};
      auto made =
          std::make_shared<c::Pass>(c::Pass{input.network, insitu::Pass(*of.net, input.piece, input.batch, options)});
      write_output(of, made->pass.output(), outputs, out);
      *pass = Handles::all().add(std::move(made));
    });
  });
}

int adjoin_loss(adjoin_pass pass, const char* kind, double delta, int32_t targets, const adjoin_array* target,
                const adjoin_array* weights, double* value) {
  return guarded([&] {
    std::shared_ptr<c::Pass> of;
    std::optional<insitu::Pass::Sums> mine;
    std::optional<Failure> failure;
    Same same;
    try {
      of = object<c::Pass>(pass);
      require(kind != nullptr, "kind: expected a word, got null");
      const insitu::Loss loss = insitu::Loss::named(kind, delta == 0 ? 1 : delta);
      mine = of->pass.sums(loss, like_output(*of, "targets", targets, target), weights_of(*of, weights));
      same << kind << delta << (weights != nullptr);
    } catch (...) {
      failure = failure_of(std::current_exception());
    }
    double sums[] = {mine ? mine->of_differences.item<double>() : 0, mine ? mine->of_weights : 0};
    if (const auto world = latest_world())
      settle(*world, "adjoin_loss", same.text, failure, sums);
    else if (failure)
      throw Failure(*failure);
    require(sums[1] > 0,
            [&] { return "weights: expected a sum above 0 over all ranks, got " + std::to_string(sums[1]); });
    of->pass.set_loss(*mine, sums[1]);
    if (value) *value = sums[0] / sums[1];
  });
}

int adjoin_backward(adjoin_pass* pass, int32_t outputs, const adjoin_array* out_gradients, int32_t inputs,
                    const adjoin_array* in_gradients) {
  return guarded([&] {
    std::optional<at::Tensor> gradient;
    const auto local = [&](Same& same) {
      require(pass != nullptr, "pass: expected a handle, got null");
      const auto of = object<c::Pass>(*pass);
      if (outputs != 0) gradient = like_output(*of, "output gradients", outputs, out_gradients);
      if (inputs != 0) {
        const Layout layout = of->network->net->input_layout(1);
        const Expected wanted = expected("input gradients", *of->network, layout, of->network->net->inputs());
        require(batch_of(wanted, span_of("input gradients", inputs, in_gradients)) == of->pass.batch(),
                "input gradients: expected as many samples as the pass has");
      }
      same << (outputs != 0) << (inputs != 0);
      return of;
    };
    // Without arrays nothing can be wrong on one rank but the handle, and nothing is sent for it.
    Same none;
    const auto of = outputs != 0 || inputs != 0 ? agreed("adjoin_backward", local) : local(none);
    together(world_of(*of), [&] {
      of->pass.backward(gradient);
      if (inputs == 0) return;
      const Layout layout = of->network->net->input_layout(1);
      write(expected("input gradients", *of->network, layout, of->network->net->inputs()),
            span_of("input gradients", inputs, in_gradients), of->pass.input_gradient());
    });
    Handles::all().remove(*pass);
    *pass = 0;
  });
}

}  // extern "C"
