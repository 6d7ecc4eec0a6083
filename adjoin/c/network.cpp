#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>

#include "adjoin/c/arrays.hpp"
#include "adjoin/c/call.hpp"
#include "adjoin/parallel/gradients.hpp"

namespace adjoin::c {
namespace {

std::string text_of(const char* name, const char* text) {
  need(text != nullptr, name, ": expected a text, got null");
  return text;
}

nn::Parameter parameter(const Network& network, int32_t index) {
  std::vector<nn::Parameter> all = network.net->parameters_and_buffers();
  need(index >= 0 && index < std::ssize(all), "index: expected 0 to ", std::ssize(all) - 1, ", got ", index);
  return all[static_cast<size_t>(index)];
}

/// The network and one of its tensors, of which `count` numbers are wanted. All ranks ask for the same.
std::pair<std::shared_ptr<Network>, nn::Parameter> wanted(const char* function, adjoin_network network, int32_t index,
                                                          int32_t what, const double* numbers, int64_t count) {
  std::optional<nn::Parameter> found;
  const auto of = agreed<Network>(function, network, [&](Network& net, Same& same) {
    const nn::Parameter piece = parameter(net, index);
    need(what == ADJOIN_WEIGHT || what == ADJOIN_GRADIENT, "what: expected 0 or 1, got ", what);
    need(what == ADJOIN_WEIGHT || !piece.is_buffer, piece.name, " is not trained: it has no gradient");
    const int64_t elements = c10::multiply_integers(piece.layout.shape());
    need(numbers != nullptr && count == elements, piece.name, ": expected memory for ", elements, " numbers, got ",
         count, (numbers ? "" : " at null"));
    same << index << what;
    found = piece;
  });
  return {of, std::move(*found)};
}

/// Whether this rank is the first along all axes of a kind: of ranks with equal pieces one, of ranks with summands one.
bool is_first_along(const nn::Parameter& piece, Kind kind) {
  if (!piece.grid.has_me()) return false;
  const std::vector<std::string> axes = piece.layout.axes(kind);
  return std::ranges::all_of(axes, [&](const std::string& axis) { return piece.grid.coordinate(axis) == 0; });
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
  return guarded([&] {
    const auto of = agreed<c::Blocks>("adjoin_network_create", blocks, [&](c::Blocks&, Same& same) {
      require(network != nullptr, "network: expected a place for the handle, got null");
      same << text_of("json", json) << c10::toString(type_of("", type)) << seed;
    });
    together(of->home(), [&] {
      std::shared_ptr<insitu::Network> net;
      settled(of->home(), "adjoin_network_create",
              [&] { net = std::make_shared<insitu::Network>(of->blocks, json, type_of("", type), seed); });
      *network = Handles::all().add(
          std::make_shared<c::Network>(c::Network{.blocks = of, .net = std::move(net), .seed = seed}));
    });
  });
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
    require(count != nullptr, "count: expected a place for the number, got null");
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
  return guarded([&] {
    const auto [of, piece] = wanted("adjoin_network_read", network, index, what, numbers, count);
    together(of->home(), [&] {
      const at::NoGradGuard none;
      // A gradient is whole along axes of replicated weights, and a summand along others.
      const bool is_first = is_first_along(piece, Kind::replicated);
      const at::Tensor all =
          what == ADJOIN_GRADIENT
              ? summed(piece, piece.tensor.grad(), is_first, of->home())
              : summed(piece, piece.tensor.detach(), is_first && is_first_along(piece, Kind::copied), of->home());
      at::from_blob(numbers, {count}, at::kDouble).copy_(all.flatten());
    });
  });
}

int adjoin_network_write(adjoin_network network, int32_t index, int32_t what, const double* numbers, int64_t count) {
  return guarded([&] {
    const auto [of, piece] = wanted("adjoin_network_write", network, index, what, numbers, count);
    const at::NoGradGuard none;
    if (piece.tensor.numel() == 0) return;
    const at::Tensor given = at::from_blob(const_cast<double*>(numbers), piece.layout.shape(), at::kDouble);
    if (what == ADJOIN_WEIGHT) {
      at::Tensor(piece.tensor.detach()).copy_(given);
      return;
    }
    const bool is_first = is_first_along(piece, Kind::copied);  // the ranks' gradients are added up
    piece.tensor.mutable_grad() =
        is_first ? given.to(piece.tensor.scalar_type(), false, /*copy=*/true) : at::zeros_like(piece.tensor);
  });
}

int adjoin_network_optimizer(adjoin_network network, const char* json) {
  return guarded([&] {
    const auto of = agreed<c::Network>("adjoin_network_optimizer", network,
                                       [&](c::Network&, Same& same) { same << text_of("json", json); });
    together(of->home(), [&] {
      of->training.reset();
      of->training.emplace(*of->net, json);
    });
  });
}

int adjoin_step(adjoin_network network, double rate, double* norm, int32_t* skipped) {
  return guarded([&] {
    const auto of = agreed<c::Network>("adjoin_step", network, [&](c::Network& net, Same& same) {
      require(net.training.has_value(), "step: expected adjoin_network_optimizer before it");
      same << rate;
    });
    together(of->home(), [&] {
      const parallel::Update update = of->training->step(rate < 0 ? std::nullopt : std::optional(rate));
      if (norm) *norm = update.norm;
      if (skipped) *skipped = update.skipped ? 1 : 0;
    });
  });
}

int adjoin_zero_gradients(adjoin_network network) {
  return guarded([&] { object<c::Network>(network)->net->zero_gradients(); });
}

int adjoin_network_save(adjoin_network network, const char* path) {
  return guarded([&] {
    const auto of = agreed<c::Network>("adjoin_network_save", network,
                                       [&](c::Network&, Same& same) { same << text_of("path", path); });
    together(of->home(), [&] {
      settled(of->home(), "adjoin_network_save",  // ranks without cells do not write
              [&] { insitu::save(path, *of->net, of->training ? &*of->training : nullptr); });
    });
  });
}

int adjoin_network_load(adjoin_network network, const char* path, int32_t weights_only) {
  return guarded([&] {
    const auto of = agreed<c::Network>("adjoin_network_load", network,
                                       [&](c::Network&, Same& same) { same << text_of("path", path) << weights_only; });
    together(of->home(),
             [&] { insitu::load(path, *of->net, of->training && weights_only == 0 ? &*of->training : nullptr); });
  });
}

}  // extern "C"
