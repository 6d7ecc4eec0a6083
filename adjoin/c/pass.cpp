#include <ATen/ATen.h>

#include <array>

#include "adjoin/c/arrays.hpp"
#include "adjoin/c/call.hpp"
#include "adjoin/insitu/normaliser.hpp"

namespace adjoin::c {
namespace {

Expected expected(const char* name, const Network& network, const Layout& layout, int64_t channels) {
  return {name, layout, network.blocks->world->group.rank(),
          network.net->blocks().order() == insitu::DimOrder::columns_first, channels};
}

struct Input {
  at::Tensor piece;
  int64_t batch = 1;
};

/// What forward and infer read and check on each rank before anything is sent.
Input input_of(Same& same, const Network& network, int32_t inputs, const adjoin_array* in, int32_t outputs,
               const adjoin_array* out) {
  const insitu::Network& net = *network.net;
  const Layout from = net.input_layout(1), to = net.output_layout(1);
  const auto arrays = span_of("inputs", inputs, in), results = span_of("outputs", outputs, out);
  const Expected wanted = expected("inputs", network, from, net.inputs());
  const int64_t batch = batch_of(wanted, arrays);
  if (outputs > 0) {
    const int64_t other = batch_of(expected("outputs", network, to, net.outputs()), results);
    require(other == batch, "outputs: expected as many samples as the inputs have");
  }
  same << batch << (outputs > 0);
  return {read(wanted, arrays, net.type()), batch};
}

void write_output(const Network& network, const at::Tensor& piece, int32_t outputs, const adjoin_array* out) {
  if (outputs == 0) return;
  const Layout layout = network.net->output_layout(1);
  write(expected("outputs", network, layout, network.net->outputs()), span_of("outputs", outputs, out), piece);
}

/// Arrays like a network's outputs, of `batch` samples.
at::Tensor like_output(const Network& network, int64_t batch, const char* name, int32_t count,
                       const adjoin_array* arrays) {
  const Layout layout = network.net->output_layout(1);
  const Expected wanted = expected(name, network, layout, network.net->outputs());
  const auto given = span_of(name, count, arrays);
  require(batch_of(wanted, given) == batch,
          [&] { return std::string(name) + ": expected " + std::to_string(batch) + " samples"; });
  return read(wanted, given, network.net->type());
}

at::Tensor weights_of(const Pass& pass, const adjoin_array* array) {
  if (!array) return {};
  const Layout layout = pass.network->net->output_layout(1);
  const Expected wanted = expected("weights", *pass.network, layout, 1);
  const int64_t batch = batch_of(wanted, {array, 1});
  require(batch == 1 || batch == pass.pass.batch(), "weights: expected one sample, or as many as the pass has");
  return read(wanted, {array, 1}, pass.network->net->type());
}

/// A loss of this rank, and the sums that all ranks add up.
struct PartOfLoss {
  insitu::Pass::Sums mine;
  std::array<double, 2> sums{};

  void set(insitu::Pass::Sums of_rank) {
    mine = std::move(of_rank);
    sums = {mine.of_differences.item<double>(), mine.of_weights};
  }
  void give_to(Pass& pass, double* value) const {
    require(sums[1] > 0,
            [&] { return "weights: expected a sum above 0 over all ranks, got " + std::to_string(sums[1]); });
    pass.pass.set_loss(mine, sums[1]);
    if (value) *value = sums[0] / sums[1];
  }
};

insitu::Loss loss_of(const char* kind, double delta) {
  require(kind != nullptr, "kind: expected a word, got null");
  return insitu::Loss::named(kind, delta == 0 ? 1 : delta);
}

/// A pass that trains.
std::shared_ptr<Pass> pass_of(const std::shared_ptr<Network>& network, const at::Tensor& inputs, int64_t batch,
                              bool input_gradients) {
  const insitu::Pass::Options options{.input_gradients = input_gradients,
                                      .step = {.seed = network->seed, .number = network->passes++}};
  return std::make_shared<Pass>(Pass{network, insitu::Pass(*network->net, inputs, batch, options)});
}

}  // namespace
}  // namespace adjoin::c

using namespace adjoin;
using namespace adjoin::c;

extern "C" {

int adjoin_infer(adjoin_network network, int32_t inputs, const adjoin_array* in, int32_t outputs,
                 const adjoin_array* out) {
  return guarded([&] {
    Input input;
    const auto of = agreed<c::Network>("adjoin_infer", network, [&](c::Network& net, Same& same) {
      input = input_of(same, net, inputs, in, outputs, out);
    });
    together(world_of(*of), [&] {
      const insitu::Pass pass(*of->net, input.piece, input.batch, {.trains = false, .records = false});
      write_output(*of, pass.output(), outputs, out);
    });
  });
}

int adjoin_forward(adjoin_network network, int32_t inputs, const adjoin_array* in, int32_t outputs,
                   const adjoin_array* out, int32_t input_gradients, adjoin_pass* pass) {
  return guarded([&] {
    Input input;
    const auto of = agreed<c::Network>("adjoin_forward", network, [&](c::Network& net, Same& same) {
      require(pass != nullptr, "pass: expected a place for the handle, got null");
      same << input_gradients;
      input = input_of(same, net, inputs, in, outputs, out);
    });
    together(world_of(*of), [&] {
      auto made = pass_of(of, input.piece, input.batch, input_gradients != 0);
      write_output(*of, made->pass.output(), outputs, out);
      *pass = Handles::all().add(std::move(made));
    });
  });
}

int adjoin_loss(adjoin_pass pass, const char* kind, double delta, int32_t targets, const adjoin_array* target,
                const adjoin_array* weights, double* value) {
  return guarded([&] {
    PartOfLoss part;
    const auto local = [&](c::Pass& of, Same& same) {
      const insitu::Loss loss = loss_of(kind, delta);
      same << kind << delta << (weights != nullptr);
      part.set(of.pass.sums(loss, like_output(*of.network, of.pass.batch(), "targets", targets, target),
                            weights_of(of, weights)));
    };
    const auto of = agreed<c::Pass>("adjoin_loss", pass, local, part.sums);
    part.give_to(*of, value);
  });
}

int adjoin_backward(adjoin_pass* pass, int32_t outputs, const adjoin_array* out_gradients, int32_t inputs,
                    const adjoin_array* in_gradients) {
  return guarded([&] {
    std::optional<at::Tensor> gradient;
    const auto local = [&](c::Pass& of, Same& same) {
      if (outputs != 0)
        gradient = like_output(*of.network, of.pass.batch(), "output gradients", outputs, out_gradients);
      if (inputs != 0) {
        const Layout layout = of.network->net->input_layout(1);
        const Expected wanted = expected("input gradients", *of.network, layout, of.network->net->inputs());
        require(batch_of(wanted, span_of("input gradients", inputs, in_gradients)) == of.pass.batch(),
                "input gradients: expected as many samples as the pass has");
      }
      of.pass.check_backward(gradient.has_value());
      same << (outputs != 0) << (inputs != 0);
    };
    const auto of = agreed<c::Pass>("adjoin_backward", pass ? *pass : 0, local);
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

int adjoin_network_observe(adjoin_network network, const char* layer, int32_t fields, const adjoin_array* field) {
  return guarded([&] {
    insitu::Normaliser* normaliser = nullptr;
    std::vector<double> sums;
    const auto of = agreed<c::Network>("adjoin_network_observe", network, [&](c::Network& found, Same& same) {
      require(layer != nullptr, "layer: expected a name, got null");
      normaliser = &found.net->running_normaliser(layer);
      const Layout layout = found.net->layout_of(layer, 1);
      const Expected wanted = expected("fields", found, layout, layout.shape()[1]);
      batch_of(wanted, span_of("fields", fields, field));
      sums = normaliser->sums(read(wanted, {field, static_cast<size_t>(fields)}, at::kDouble));
      same << layer;
    });
    together(world_of(*of), [&] {
      world_of(*of).group.all_reduce(buffer(sums));
      normaliser->merge(sums);
    });
  });
}

int adjoin_samples_create(adjoin_network network, int64_t capacity, uint64_t seed, adjoin_samples* samples) {
  return guarded([&] {
    const auto of = agreed<c::Network>("adjoin_samples_create", network, [&](c::Network&, Same& same) {
      require(samples != nullptr, "samples: expected a place for the handle, got null");
      require(capacity >= 1, [&] { return "capacity: expected at least 1, got " + std::to_string(capacity); });
      same << capacity << seed;
    });
    *samples = Handles::all().add(
        std::make_shared<c::Samples>(c::Samples{of, insitu::Samples(static_cast<size_t>(capacity), seed)}));
  });
}

int adjoin_samples_add(adjoin_samples samples, int32_t inputs, const adjoin_array* in, int32_t targets,
                       const adjoin_array* target) {
  return guarded([&] {
    at::Tensor input, output;
    const auto of = agreed<c::Samples>("adjoin_samples_add", samples, [&](c::Samples& found, Same&) {
      const insitu::Network& net = *found.network->net;
      const Layout layout = net.input_layout(1);
      const Expected wanted = expected("inputs", *found.network, layout, net.inputs());
      require(batch_of(wanted, span_of("inputs", inputs, in)) == 1, "inputs: expected 1 sample");
      input = read(wanted, {in, static_cast<size_t>(inputs)}, net.type());
      output = like_output(*found.network, 1, "targets", targets, target);
    });
    of->ring.add(input, output);
  });
}

int adjoin_samples_draw(adjoin_samples samples, int64_t batch, const char* kind, double delta, double* value,
                        adjoin_pass* pass) {
  return guarded([&] {
    insitu::Loss loss;
    const auto of = agreed<c::Samples>("adjoin_samples_draw", samples, [&](c::Samples& found, Same& same) {
      require(pass != nullptr, "pass: expected a place for the handle, got null");
      loss = loss_of(kind, delta);
      require(batch >= 1 && batch <= static_cast<int64_t>(found.ring.size()), [&] {
        return "batch: expected 1 to the " + std::to_string(found.ring.size()) + " samples that are kept, got " +
               std::to_string(batch);
      });
      same << batch << kind << delta;
    });
    together(world_of(*of), [&] {
      const auto [inputs, target] = of->ring.draw(static_cast<size_t>(batch));
      auto made = pass_of(of->network, inputs, batch, false);
      PartOfLoss part;
      part.set(made->pass.sums(loss, target, {}));
      settle(world_of(*of), "adjoin_samples_draw", "", {}, part.sums);
      part.give_to(*made, value);
      *pass = Handles::all().add(std::move(made));
    });
  });
}

}  // extern "C"
