#include "adjoin/c/arrays.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/c/call.hpp"

namespace adjoin::c {
namespace {

/// The dims of an array that count cells, rows first.
std::vector<int32_t> space_of(const Expected& expected, const adjoin_array& array) {
  std::vector<int32_t> dims;
  for (int32_t d = 0; d < array.dims; ++d)
    if (d != array.channel_dim && d != array.batch_dim) dims.push_back(d);
  if (expected.columns_first) std::ranges::reverse(dims);
  return dims;
}

int64_t channels_of(const adjoin_array& array) {
  return array.channel_dim >= 0 ? array.sizes[array.channel_dim] : 1;
}

bool has_cells(const Expected& expected) {
  const std::vector<int64_t> shape = expected.layout.shape_on(expected.rank);
  return std::ranges::find(shape, 0) == shape.end();
}

void check(const Expected& expected, const adjoin_array& array, const std::string& lead) {
  const auto need = [&](bool holds, const std::string& what) {
    if (!holds) throw InvalidArgument(lead + what);
  };
  need(array.struct_size == sizeof(adjoin_array),
       "struct_size: expected " + std::to_string(sizeof(adjoin_array)) + ", got " + std::to_string(array.struct_size));
  if (array.device != 0) throw Failure{ADJOIN_UNSUPPORTED, lead + "device: there is only the CPU, 0"};
  type_of(lead.c_str(), array.type);
  need(array.dims >= 1 && array.dims <= ADJOIN_MOST_DIMS, "dims: expected 1 to 8, got " + std::to_string(array.dims));
  for (const auto& [name, dim] : {std::pair("channel_dim", array.channel_dim), {"batch_dim", array.batch_dim}})
    need(dim >= -1 && dim < array.dims,
         std::string(name) + ": expected -1 or one of the array's dims, got " + std::to_string(dim));
  need(array.channel_dim < 0 || array.channel_dim != array.batch_dim, "channel_dim and batch_dim are one dim");
  const std::vector<int32_t> space = space_of(expected, array);
  const size_t before = 2, wanted = expected.layout.shape().size() - before;
  need(space.size() == wanted, "expected " + std::to_string(wanted) +
                                   " dims of space besides those of channels and of the batch, got " +
                                   std::to_string(space.size()));
  for (int32_t d = 0; d < array.dims; ++d) {
    need(array.sizes[d] >= 0, "a size is negative");
    need(array.strides[d] >= 0, "a stride is negative");
  }
  if (!has_cells(expected)) return;
  const std::vector<int64_t> shape = expected.layout.shape_on(expected.rank);
  for (size_t d = 0; d < wanted; ++d)
    need(array.sizes[space[d]] == shape[before + d], "dim " + std::to_string(space[d]) + ": expected the block's " +
                                                         std::to_string(shape[before + d]) + " cells, got " +
                                                         std::to_string(array.sizes[space[d]]));
  need(array.data != nullptr, "data: expected memory, got null");
}

/// The caller's memory as [batch, channels, *cells].
at::Tensor view_of(const Expected& expected, const adjoin_array& array) {
  std::vector<int32_t> dims{array.batch_dim, array.channel_dim};
  const std::vector<int32_t> space = space_of(expected, array);
  dims.insert(dims.end(), space.begin(), space.end());
  std::vector<int64_t> sizes, strides;
  for (const int32_t d : dims) {
    sizes.push_back(d >= 0 ? array.sizes[d] : 1);
    strides.push_back(d >= 0 ? array.strides[d] : 1);
  }
  return at::from_blob(array.data, sizes, strides, at::TensorOptions(type_of("type", array.type)));
}

}  // namespace

at::ScalarType type_of(const char* name, int32_t type) {
  require(type == ADJOIN_FLOAT32 || type == ADJOIN_FLOAT64, [&] {
    return std::string(name) + "type: expected ADJOIN_FLOAT32 (0) or ADJOIN_FLOAT64 (1), got " + std::to_string(type);
  });
  return type == ADJOIN_FLOAT32 ? at::kFloat : at::kDouble;
}

std::span<const adjoin_array> span_of(const char* name, int32_t count, const adjoin_array* arrays) {
  require(count >= 0 && count <= 4096 && (count == 0 || arrays != nullptr), [&] {
    return std::string(name) + ": expected arrays, got " + std::to_string(count) + (arrays ? "" : " at null");
  });
  return {arrays, static_cast<size_t>(count)};
}

int64_t batch_of(const Expected& expected, std::span<const adjoin_array> arrays) {
  int64_t channels = 0, batch = 1;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string lead = "array " + std::to_string(i) + " of " + expected.name + ": ";
    check(expected, arrays[i], lead);
    const int64_t samples = arrays[i].batch_dim >= 0 ? arrays[i].sizes[arrays[i].batch_dim] : 1;
    require(samples >= 1, lead + "expected a batch of at least 1 sample");
    require(i == 0 || samples == batch, [&] {
      return lead + "expected " + std::to_string(batch) + " samples as in the first, got " + std::to_string(samples);
    });
    batch = samples;
    channels += channels_of(arrays[i]);
  }
  require(channels == expected.channels, [&] {
    return expected.name + ": expected " + std::to_string(expected.channels) + " channels, got " +
           std::to_string(channels);
  });
  return batch;
}

at::Tensor read(const Expected& expected, std::span<const adjoin_array> arrays, at::ScalarType type) {
  std::vector<int64_t> shape = expected.layout.shape_on(expected.rank);
  const adjoin_array& first = arrays.front();
  if (shape.size() > 1) {
    shape[0] = first.batch_dim >= 0 ? first.sizes[first.batch_dim] : 1;
    shape[1] = expected.channels;
  }
  at::Tensor piece = at::empty(shape, at::TensorOptions(type));
  if (!has_cells(expected)) return piece;
  int64_t channel = 0;
  for (const adjoin_array& array : arrays) {
    piece.narrow(1, channel, channels_of(array)).copy_(view_of(expected, array));
    channel += channels_of(array);
  }
  return piece;
}

void write(const Expected& expected, std::span<const adjoin_array> arrays, const at::Tensor& piece) {
  if (!has_cells(expected)) return;
  int64_t channel = 0;
  for (const adjoin_array& array : arrays) {
    view_of(expected, array).copy_(piece.narrow(1, channel, channels_of(array)));
    channel += channels_of(array);
  }
}

}  // namespace adjoin::c
