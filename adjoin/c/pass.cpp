#include <ATen/ATen.h>

#include <array>

#include "adjoin/c/arrays.hpp"
#include "adjoin/c/call.hpp"
#include "adjoin/insitu/normaliser.hpp"

namespace adjoin::c {
namespace {

Field field_of(const char* name, const Network& network, const Layout& layout, int32_t count,
               const adjoin_array* arrays) {
  const bool columns_first = network.net->blocks().order() == insitu::DimOrder::columns_first;
  return {name, layout, network.blocks->world->group.rank(), columns_first, layout.shape()[1], count, arrays};
}
Field inputs_of(const Network& network, int32_t count, const adjoin_array* arrays, const char* name = "inputs") {
  return field_of(name, network, network.net->input_layout(1), count, arrays);
}
Field outputs_of(const Network& network, int32_t count, const adjoin_array* arrays, const char* name = "outputs") {
  return field_of(name, network, network.net->output_layout(1), count, arrays);
}

void check_samples(const Field& field, int64_t expected) {
  need(batch_of(field) == expected, field.name, ": expected ", expected, " samples");
}

/// A field of so many samples as one piece.
at::Tensor read_samples(const Network& network, const Field& field, int64_t samples) {
  check_samples(field, samples);
  return read(field, network.net->type());
}

struct Input {
  at::Tensor piece;
  int64_t batch = 1;
};

/// What forward and infer read and check on each rank before anything is sent.
Input input_of(Same& same, const Network& network, const Field& inputs, const Field& outputs) {
  const int64_t batch = batch_of(inputs);
  if (outputs.count != 0) check_samples(outputs, batch);
  same << batch << (outputs.count != 0);
  return {read(inputs, network.net->type()), batch};
}

at::Tensor weights_of(const Pass& pass, const adjoin_array* array) {
  if (!array) return {};
  Field field = outputs_of(*pass.network, 1, array, "weights");
  field.channels = 1;
  const int64_t batch = batch_of(field);
  require(batch == 1 || batch == pass.pass.batch(), "weights: expected one sample, or as many as the pass has");
  return read(field, pass.network->net->type());
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
    need(sums[1] > 0, "weights: expected a sum above 0 over all ranks, got ", sums[1]);
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
      input = input_of(same, net, inputs_of(net, inputs, in), outputs_of(net, outputs, out));
    });
    together(of->home(), [&] {
      const insitu::Pass pass(*of->net, input.piece, input.batch, {.trains = false, .records = false});
      write(outputs_of(*of, outputs, out), pass.output());
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
      input = input_of(same, net, inputs_of(net, inputs, in), outputs_of(net, outputs, out));
    });
    together(of->home(), [&] {
      auto made = pass_of(of, input.piece, input.batch, input_gradients != 0);
      write(outputs_of(*of, outputs, out), made->pass.output());
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
      const Field field = outputs_of(*of.network, targets, target, "targets");
      part.set(of.pass.sums(loss, read_samples(*of.network, field, of.pass.batch()), weights_of(of, weights)));
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
      const Field given = outputs_of(*of.network, outputs, out_gradients, "output gradients");
      if (outputs != 0) gradient = read_samples(*of.network, given, of.pass.batch());
      if (inputs != 0) check_samples(inputs_of(*of.network, inputs, in_gradients, "input gradients"), of.pass.batch());
      of.pass.check_backward(gradient.has_value());
      same << (outputs != 0) << (inputs != 0);
    };
    const auto of = agreed<c::Pass>("adjoin_backward", pass ? *pass : 0, local);
    together(of->home(), [&] {
      of->pass.backward(gradient);
      if (inputs != 0) write(inputs_of(*of->network, inputs, in_gradients), of->pass.input_gradient());
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
      const Field given = field_of("fields", found, found.net->layout_of(layer, 1), fields, field);
      batch_of(given);
      sums = normaliser->sums(read(given, at::kDouble));
      same << layer;
    });
    together(of->home(), [&] {
      of->home().group.all_reduce(buffer(sums));
      normaliser->merge(sums);
    });
  });
}

int adjoin_samples_create(adjoin_network network, int64_t capacity, uint64_t seed, adjoin_samples* samples) {
  return guarded([&] {
    const auto of = agreed<c::Network>("adjoin_samples_create", network, [&](c::Network&, Same& same) {
      require(samples != nullptr, "samples: expected a place for the handle, got null");
      need(capacity >= 1, "capacity: expected at least 1, got ", capacity);
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
      const c::Network& of_samples = *found.network;
      input = read_samples(of_samples, inputs_of(of_samples, inputs, in), 1);
      output = read_samples(of_samples, outputs_of(of_samples, targets, target, "targets"), 1);
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
      need(batch >= 1 && batch <= static_cast<int64_t>(found.ring.size()), "batch: expected 1 to the ",
           found.ring.size(), " samples that are kept, got ", batch);
      same << batch << kind << delta;
    });
    together(of->home(), [&] {
      const auto [inputs, target] = of->ring.draw(static_cast<size_t>(batch));
      auto made = pass_of(of->network, inputs, batch, false);
      PartOfLoss part;
      part.set(made->pass.sums(loss, target, {}));
      settle(of->home(), "adjoin_samples_draw", "", {}, part.sums);
      part.give_to(*made, value);
      *pass = Handles::all().add(std::move(made));
    });
  });
}

}  // extern "C"
