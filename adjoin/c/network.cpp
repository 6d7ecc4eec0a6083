#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "adjoin/c/arrays.hpp"
#include "adjoin/c/call.hpp"
#include "adjoin/parallel/gradients.hpp"

namespace adjoin::c {
namespace {

nn::Parameter parameter(const Network& network, int32_t index) {
  std::vector<nn::Parameter> all = network.net->parameters_and_buffers();
  require(index >= 0 && index < std::ssize(all), "index: it is none of the network's ", all.size(), " tensors");
  return all[static_cast<size_t>(index)];
}

/// One of the network's tensors, of which `count` numbers are wanted. All ranks ask for the same.
nn::Parameter wanted(const Network& network, Same& same, int32_t index, int32_t what, const double* numbers,
                     int64_t count) {
  nn::Parameter piece = parameter(network, index);
  require(what == ADJOIN_WEIGHT || what == ADJOIN_GRADIENT, "what: expected 0 or 1, got ", what);
  require(what == ADJOIN_WEIGHT || !piece.is_buffer, piece.name, " is not trained: it has no gradient");
  const int64_t elements = c10::multiply_integers(piece.layout.shape());
  require(numbers != nullptr && count == elements, piece.name, ": expected memory for ", elements, " numbers, got ",
          count, (numbers ? "" : " at null"));
  same << index << what;
  return piece;
}

/// Whether this rank is the first along all axes of a kind: of ranks with equal pieces one, of ranks with summands one.
bool is_first_along(const nn::Parameter& piece, Kind kind) {
  if (!piece.grid.has_me()) return false;
  const auto is_first = [&](const std::string& axis) { return piece.grid.coordinate(axis) == 0; };
  return std::ranges::all_of(piece.layout.axes(kind), is_first);
}

/// The sum of `own` of the ranks that have a share, on all of them.
at::Tensor summed(const nn::Parameter& piece, const at::Tensor& own, bool has_share, World& world) {
  at::Tensor sum = at::zeros(piece.layout.shape(), at::kDouble);
  if (has_share && own.defined() && own.numel() > 0) sum.copy_(own);
  world.group.all_reduce({sum.data_ptr(), sum.numel(), ElementType::float64});
  return sum;
}

}  // namespace
}  // namespace adjoin::c

using namespace adjoin;
using namespace adjoin::c;

extern "C" {

int adjoin_network_create(adjoin_blocks blocks, const char* json, int32_t type, uint64_t seed,
                          adjoin_network* network) {
  const auto check = [&](c::Blocks&, Same& same) {
    check_place("network", network);
    same << text_of("json", json) << c10::toString(type_of("", type)) << seed;
  };
  const auto create = [&](const auto& of) {
    std::shared_ptr<insitu::Network> net;
    settled(of->home(), "adjoin_network_create",
            [&] { net = std::make_shared<insitu::Network>(of->blocks, json, type_of("", type), seed); });
    *network = Handles::all().add(std::make_shared<c::Network>(c::Network{.blocks = of, .net = net, .seed = seed}));
  };
  return by_all<c::Blocks>("adjoin_network_create", blocks, check, create);
}

int adjoin_network_output(adjoin_network network, int64_t* channels, int64_t* sizes) {
  return guarded([&] {
    const auto of = object<c::Network>(network);
    const Layout layout = of->net->output_layout(1);
    std::vector<int64_t> space(of->net->blocks().dims());
    const std::vector<int64_t> mine = layout.shape_on(of->home().group.rank());
    if (mine.size() > 1) std::copy(mine.begin() + 2, mine.end(), space.begin());
    if (of->net->blocks().order() == insitu::DimOrder::columns_first) std::ranges::reverse(space);
    if (channels) *channels = layout.shape()[1];
    if (sizes) std::ranges::copy(space, sizes);
  });
}

int adjoin_network_parameters(adjoin_network network, int32_t* count) {
  return guarded([&] {
    const auto of = object<c::Network>(network);
    check_place("count", count);
    *count = static_cast<int32_t>(of->net->parameters_and_buffers().size());
  });
}

int adjoin_network_parameter(adjoin_network network, int32_t index, char* name, int32_t capacity, int32_t* dims,
                             int64_t sizes[ADJOIN_MOST_DIMS], int32_t* is_trained) {
  return guarded([&] {
    const nn::Parameter piece = parameter(*object<c::Network>(network), index);
    if (name && capacity > 0) {
      const size_t length = std::min(piece.name.size(), static_cast<size_t>(capacity) - 1);
      std::memcpy(name, piece.name.data(), length);
      name[length] = 0;
    }
    if (dims) *dims = static_cast<int32_t>(piece.layout.dims());
    if (sizes) std::ranges::copy(piece.layout.shape(), sizes);
    if (is_trained) *is_trained = piece.is_buffer ? 0 : 1;
  });
}

int adjoin_network_read(adjoin_network network, int32_t index, int32_t what, double* numbers, int64_t count) {
  std::optional<nn::Parameter> piece;
  const auto check = [&](c::Network& of, Same& same) {
    piece = wanted(of, same, index, what, numbers, count);
    ask_for_memory(8.0 * static_cast<double>(count));
  };
  const auto read = [&](const auto& of) {
    const at::NoGradGuard none;
    // A gradient is whole along axes of replicated weights, and a summand along others.
    const bool is_gradient = what == ADJOIN_GRADIENT;
    const bool has_share =
        is_first_along(*piece, Kind::replicated) && (is_gradient || is_first_along(*piece, Kind::copied));
    const at::Tensor own = is_gradient ? piece->tensor.grad() : piece->tensor.detach();
    at::from_blob(numbers, {count}, at::kDouble).copy_(summed(*piece, own, has_share, of->home()).flatten());
  };
  return by_all<c::Network>("adjoin_network_read", network, check, read);
}

int adjoin_network_write(adjoin_network network, int32_t index, int32_t what, const double* numbers, int64_t count) {
  std::optional<nn::Parameter> piece;
  const auto check = [&](c::Network& of, Same& same) { piece = wanted(of, same, index, what, numbers, count); };
  const auto write = [&](const auto&) {
    const at::NoGradGuard none;
    if (piece->tensor.numel() == 0) return;
    const at::Tensor given = at::from_blob(const_cast<double*>(numbers), piece->layout.shape(), at::kDouble);
    const at::Tensor weight = piece->tensor.detach();
    if (what == ADJOIN_WEIGHT)
      weight.copy_(given);
    else  // the ranks' gradients are added up
      piece->tensor.mutable_grad() =
          is_first_along(*piece, Kind::copied) ? given.to(weight.scalar_type(), false, true) : at::zeros_like(weight);
  };
  return by_all<c::Network>("adjoin_network_write", network, check, write);
}

int adjoin_network_optimizer(adjoin_network network, const char* json) {
  const auto check = [&](c::Network&, Same& same) { same << text_of("json", json); };
  const auto create = [&](const auto& of) {
    of->training.reset();
    of->training.emplace(*of->net, json);
  };
  return by_all<c::Network>("adjoin_network_optimizer", network, check, create);
}

int adjoin_step(adjoin_network network, double rate, double* norm, int32_t* skipped) {
  const auto check = [&](c::Network& of, Same& same) {
    require(of.training.has_value(), "step: expected adjoin_network_optimizer before it");
    require(std::isfinite(rate), "rate: expected a number, or one below 0 for that of the schedule, got ", rate);
    same << rate;
  };
  const auto step = [&](const auto& of) {
    const parallel::Update update = of->training->step(rate < 0 ? std::nullopt : std::optional(rate));
    if (norm) *norm = update.norm;
    if (skipped) *skipped = update.skipped ? 1 : 0;
  };
  return by_all<c::Network>("adjoin_step", network, check, step);
}

int adjoin_zero_gradients(adjoin_network network) {
  return guarded([&] { object<c::Network>(network)->net->zero_gradients(); });
}

int adjoin_network_save(adjoin_network network, const char* path) {
  const auto check = [&](c::Network&, Same& same) {
    same << text_of("path", path);
    require(*path != 0, "path: expected a name, got none");
  };
  const auto save = [&](const auto& of) {
    settled(of->home(), "adjoin_network_save",  // ranks without cells do not write
            [&] { insitu::save(path, *of->net, of->training ? &*of->training : nullptr); });
  };
  return by_all<c::Network>("adjoin_network_save", network, check, save);
}

int adjoin_network_load(adjoin_network network, const char* path, int32_t weights_only) {
  const auto check = [&](c::Network&, Same& same) {
    same << text_of("path", path) << weights_only;
    if (!std::ifstream(path)) throw Failure{ADJOIN_IO, std::string(path) + ": cannot be opened"};
  };
  const auto load = [&](const auto& of) {
    insitu::load(path, *of->net, of->training && weights_only == 0 ? &*of->training : nullptr);
  };
  return by_all<c::Network>("adjoin_network_load", network, check, load);
}

}  // extern "C"
