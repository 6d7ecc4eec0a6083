#include <ATen/ATen.h>

#include "adjoin/c/arrays.hpp"
#include "adjoin/c/call.hpp"
#include "adjoin/insitu/normaliser.hpp"

namespace adjoin::c {
namespace {

Field field_of(const char* name, const Network& network, const Layout& layout, int32_t count,
               const adjoin_array* arrays) {
  const bool columns_first = network.net->blocks().order() == insitu::DimOrder::columns_first;
  const std::vector<int64_t> piece = layout.shape_on(network.home().group.rank());
  return {name, piece, network.net->blocks().dims(), columns_first, layout.shape()[1], count, arrays};
}
Field inputs_of(const Network& network, int32_t count, const adjoin_array* arrays, const char* name = "inputs") {
  return field_of(name, network, network.net->input_layout(1), count, arrays);
}
Field outputs_of(const Network& network, int32_t count, const adjoin_array* arrays, const char* name = "outputs") {
  return field_of(name, network, network.net->output_layout(1), count, arrays);
}
Field written(Field field) {
  field.is_written = true;
  return field;
}

void check_samples(const Field& field, int64_t expected) {
  require(batch_of(field) == expected, field.name, ": expected ", expected, " samples");
}

/// A field of so many samples as one piece.
at::Tensor read_samples(const Network& network, const Field& field, int64_t samples) {
  check_samples(field, samples);
  return read(field, network.net->type());
}

/// What a pass is asked for.
struct Request {
  Field inputs, outputs;
  int64_t batch = 1;
};

/// On each rank, before anything is sent.
Request request_of(const Network& network, Same& same, Field inputs, Field outputs, bool records) {
  const int64_t batch = batch_of(inputs);
  if (outputs.count != 0) check_samples(outputs, batch);
  same << batch << (outputs.count != 0);
  ask_for_memory(network.net->bytes_of_pass(batch, records));
  return {std::move(inputs), std::move(outputs), batch};
}

std::shared_ptr<Pass> run(const std::shared_ptr<Network>& network, const Request& request,
                          const insitu::Pass::Options& options) {
  DistributedTensor input = network->net->input(request.batch);
  read_into(input.local, request.inputs);
  const auto made = std::make_shared<Pass>(Pass{network, insitu::Pass(*network->net, std::move(input), options)});
  write(request.outputs, made->pass.output());
  return made;
}

insitu::Pass::Options training(Network& network, bool input_gradients) {
  return {.input_gradients = input_gradients, .step = {.seed = network.seed, .number = network.passes++}};
}

at::Tensor weights_of(const Pass& pass, const adjoin_array* array) {
  if (!array) return {};
  Field field = outputs_of(*pass.network, 1, array, "weights");
  field.channels = 1;
  const int64_t batch = batch_of(field);
  require(batch == 1 || batch == pass.pass.batch(), "weights: expected one sample, or as many as the pass has");
  return read(field, pass.network->net->type());
}

}  // namespace
}  // namespace adjoin::c

using namespace adjoin;
using namespace adjoin::c;

extern "C" {

int adjoin_infer(adjoin_network network, int32_t inputs, const adjoin_array* in, int32_t outputs,
                 const adjoin_array* out) {
  Request request;
  const auto check = [&](c::Network& of, Same& same) {
    request = request_of(of, same, inputs_of(of, inputs, in), written(outputs_of(of, outputs, out)), /*records=*/false);
  };
  const auto infer = [&](const auto& of) { run(of, request, {.trains = false, .records = false}); };
  return by_all<c::Network>("adjoin_infer", network, check, infer);
}

int adjoin_forward(adjoin_network network, int32_t inputs, const adjoin_array* in, int32_t outputs,
                   const adjoin_array* out, int32_t input_gradients, adjoin_pass* pass) {
  Request request;
  const auto check = [&](c::Network& of, Same& same) {
    check_place("pass", pass);
    same << input_gradients;
    request = request_of(of, same, inputs_of(of, inputs, in), written(outputs_of(of, outputs, out)), /*records=*/true);
  };
  const auto forward = [&](const auto& of) {
    *pass = Handles::all().add(run(of, request, training(*of, input_gradients != 0)));
  };
  return by_all<c::Network>("adjoin_forward", network, check, forward);
}

int adjoin_loss(adjoin_pass pass, const char* kind, double delta, int32_t targets, const adjoin_array* target,
                const adjoin_array* weights, double* value) {
  insitu::Pass::PartOfLoss part;
  const auto sum = [&](c::Pass& of, Same& same) {
    const insitu::Loss loss = insitu::loss_named(text_of("kind", kind), delta == 0 ? 1 : delta);
    same << kind << delta << (weights != nullptr);
    const Field field = outputs_of(*of.network, targets, target, "targets");
    part = of.pass.part_of_loss(loss, read_samples(*of.network, field, of.pass.batch()), weights_of(of, weights));
  };
  const auto set = [&](const auto& of) {
    const double loss = of->pass.set_loss(part);
    if (value) *value = loss;
  };
  return by_all<c::Pass>("adjoin_loss", pass, sum, set, part.sums);
}

int adjoin_backward(adjoin_pass* pass, int32_t outputs, const adjoin_array* out_gradients, int32_t inputs,
                    const adjoin_array* in_gradients) {
  std::optional<at::Tensor> gradient;
  const auto check = [&](c::Pass& of, Same& same) {
    const Field given = outputs_of(*of.network, outputs, out_gradients, "output gradients");
    if (outputs != 0) gradient = read_samples(*of.network, given, of.pass.batch());
    const Field taken = written(inputs_of(*of.network, inputs, in_gradients, "input gradients"));
    if (inputs != 0) check_samples(taken, of.pass.batch());
    of.pass.check_backward(gradient.has_value());
    same << (outputs != 0) << (inputs != 0);
    ask_for_memory(of.network->net->bytes_of_pass(of.pass.batch(), /*records=*/false));
  };
  const auto go_back = [&](const auto& of) {
    of->pass.backward(gradient);
    if (inputs != 0) write(inputs_of(*of->network, inputs, in_gradients), of->pass.input_gradient());
    Handles::all().remove(*pass);
    *pass = 0;
  };
  return by_all<c::Pass>("adjoin_backward", pass ? *pass : 0, check, go_back);
}

int adjoin_network_observe(adjoin_network network, const char* layer, int32_t fields, const adjoin_array* field) {
  insitu::Normaliser* normaliser = nullptr;
  std::vector<double> sums;
  const auto sum = [&](c::Network& of, Same& same) {
    normaliser = &of.net->running_normaliser(text_of("layer", layer));
    const Field given = field_of("fields", of, of.net->layout_of(layer, 1), fields, field);
    batch_of(given);
    sums = normaliser->sums(read(given, at::kDouble));
    same << layer;
  };
  const auto merge = [&](const auto& of) {
    of->home().group.all_reduce(buffer(sums));
    normaliser->merge(sums);
  };
  return by_all<c::Network>("adjoin_network_observe", network, sum, merge);
}

int adjoin_samples_create(adjoin_network network, int64_t capacity, uint64_t seed, adjoin_samples* samples) {
  const auto check = [&](c::Network&, Same& same) {
    check_place("samples", samples);
    require(capacity >= 1, "capacity: expected at least 1, got ", capacity);
    same << capacity << seed;
  };
  const auto create = [&](const auto& of) {
    const insitu::Samples ring(static_cast<size_t>(capacity), seed);
    *samples = Handles::all().add(std::make_shared<c::Samples>(c::Samples{of, ring}));
  };
  return by_all<c::Network>("adjoin_samples_create", network, check, create);
}

int adjoin_samples_add(adjoin_samples samples, int32_t inputs, const adjoin_array* in, int32_t targets,
                       const adjoin_array* target) {
  at::Tensor input, output;
  const auto copy = [&](c::Samples& of, Same&) {
    input = read_samples(*of.network, inputs_of(*of.network, inputs, in), 1);
    output = read_samples(*of.network, outputs_of(*of.network, targets, target, "targets"), 1);
  };
  return by_all<c::Samples>("adjoin_samples_add", samples, copy, [&](const auto& of) { of->ring.add(input, output); });
}

int adjoin_samples_draw(adjoin_samples samples, int64_t batch, const char* kind, double delta, double* value,
                        adjoin_pass* pass) {
  insitu::Loss loss;
  const auto check = [&](c::Samples& of, Same& same) {
    check_place("pass", pass);
    loss = insitu::loss_named(text_of("kind", kind), delta == 0 ? 1 : delta);
    require(batch >= 1 && batch <= static_cast<int64_t>(of.ring.size()), "batch: expected 1 to the ", of.ring.size(),
            " samples that are kept, got ", batch);
    same << batch << kind << delta;
    ask_for_memory(of.network->net->bytes_of_pass(batch, /*records=*/true));
  };
  const auto draw = [&](const auto& of) {
    c::Network& network = *of->network;
    DistributedTensor input = network.net->input(batch);
    const at::Tensor target = of->ring.draw(static_cast<size_t>(batch), input.local);
    c::Pass made{of->network, insitu::Pass(*network.net, std::move(input), training(network, false))};
    insitu::Pass::PartOfLoss part = made.pass.part_of_loss(loss, target, {});
    settle(of->home(), "adjoin_samples_draw", "", {}, part.sums);
    const double mean = made.pass.set_loss(part);
    if (value) *value = mean;
    *pass = Handles::all().add(std::make_shared<c::Pass>(std::move(made)));
  };
  return by_all<c::Samples>("adjoin_samples_draw", samples, check, draw);
}

}  // extern "C"
