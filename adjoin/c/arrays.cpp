#include "adjoin/c/arrays.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/c/call.hpp"

namespace adjoin::c {
namespace {

/// The dims of an array that count cells, rows first.
std::vector<int32_t> space_of(const Field& field, const adjoin_array& array) {
  std::vector<int32_t> dims;
  for (int32_t d = 0; d < array.dims; ++d)
    if (d != array.channel_dim && d != array.batch_dim) dims.push_back(d);
  if (field.columns_first) std::ranges::reverse(dims);
  return dims;
}

int64_t channels_of(const adjoin_array& array) {
  return array.channel_dim >= 0 ? array.sizes[array.channel_dim] : 1;
}

int64_t samples_of(const adjoin_array& array) {
  return array.batch_dim >= 0 ? array.sizes[array.batch_dim] : 1;
}

bool has_cells(const Field& field) {
  const std::vector<int64_t> shape = field.layout.shape_on(field.rank);
  return std::ranges::find(shape, 0) == shape.end();
}

void check(const Field& field, const adjoin_array& array, const std::string& lead) {
  const auto need = [&](bool holds, const auto&... what) { insitu::need(holds, lead, what...); };
  need(array.struct_size == sizeof(adjoin_array), "struct_size: expected ", sizeof(adjoin_array), ", got ",
       array.struct_size);
  if (array.device != 0) throw Failure{ADJOIN_UNSUPPORTED, lead + "device: there is only the CPU, 0"};
  type_of(lead.c_str(), array.type);
  need(array.dims >= 1 && array.dims <= ADJOIN_MOST_DIMS, "dims: expected 1 to 8, got ", array.dims);
  for (const auto& [name, dim] : {std::pair("channel_dim", array.channel_dim), {"batch_dim", array.batch_dim}})
    need(dim >= -1 && dim < array.dims, name, ": expected -1 or one of the array's dims, got ", dim);
  need(array.channel_dim < 0 || array.channel_dim != array.batch_dim, "channel_dim and batch_dim are one dim");
  const std::vector<int32_t> space = space_of(field, array);
  const size_t before = 2, wanted = field.layout.shape().size() - before;
  need(space.size() == wanted, "expected ", wanted, " dims of space besides those of channels and of the batch, got ",
       space.size());
  for (int32_t d = 0; d < array.dims; ++d) {
    need(array.sizes[d] >= 0, "a size is negative");
    need(array.strides[d] >= 0, "a stride is negative");
  }
  if (!has_cells(field)) return;
  const std::vector<int64_t> shape = field.layout.shape_on(field.rank);
  for (size_t d = 0; d < wanted; ++d)
    need(array.sizes[space[d]] == shape[before + d], "dim ", space[d], ": expected the block's ", shape[before + d],
         " cells, got ", array.sizes[space[d]]);
  need(array.data != nullptr, "data: expected memory, got null");
}

/// The caller's memory as [batch, channels, *cells].
at::Tensor view_of(const Field& field, const adjoin_array& array) {
  std::vector<int32_t> dims{array.batch_dim, array.channel_dim};
  const std::vector<int32_t> space = space_of(field, array);
  dims.insert(dims.end(), space.begin(), space.end());
  std::vector<int64_t> sizes, strides;
  for (const int32_t d : dims) {
    sizes.push_back(d >= 0 ? array.sizes[d] : 1);
    strides.push_back(d >= 0 ? array.strides[d] : 1);
  }
  return at::from_blob(array.data, sizes, strides, at::TensorOptions(type_of("type", array.type)));
}

/// Calls copy(channels of the piece, the caller's memory as [batch, channels, *cells]) for each array.
template <class Copy>
void for_each_array(const Field& field, const at::Tensor& piece, const Copy& copy) {
  if (!has_cells(field)) return;
  for (int64_t i = 0, channel = 0; i < field.count; channel += channels_of(field.arrays[i++]))
    copy(piece.narrow(1, channel, channels_of(field.arrays[i])), view_of(field, field.arrays[i]));
}

}  // namespace

at::ScalarType type_of(const char* name, int32_t type) {
  need(type == ADJOIN_FLOAT32 || type == ADJOIN_FLOAT64, name,
       "type: expected ADJOIN_FLOAT32 (0) or ADJOIN_FLOAT64 (1), got ", type);
  return type == ADJOIN_FLOAT32 ? at::kFloat : at::kDouble;
}

int64_t batch_of(const Field& field) {
  need(field.count >= 0 && field.count <= 4096 && (field.count == 0 || field.arrays != nullptr), field.name,
       ": expected arrays, got ", field.count, (field.arrays ? "" : " at null"));
  int64_t channels = 0, batch = 1;
  for (int32_t i = 0; i < field.count; ++i) {
    const adjoin_array& array = field.arrays[i];
    const std::string lead = "array " + std::to_string(i) + " of " + field.name + ": ";
    check(field, array, lead);
    const int64_t samples = samples_of(array);
    need(samples >= 1, lead, "expected a batch of at least 1 sample");
    need(i == 0 || samples == batch, lead, "expected ", batch, " samples as in the first, got ", samples);
    batch = samples;
    channels += channels_of(array);
  }
  need(channels == field.channels, field.name, ": expected ", field.channels, " channels, got ", channels);
  return batch;
}

at::Tensor read(const Field& field, at::ScalarType type) {
  std::vector<int64_t> shape = field.layout.shape_on(field.rank);
  if (shape.size() > 1) {
    shape[0] = samples_of(field.arrays[0]);
    shape[1] = field.channels;
  }
  const at::Tensor piece = at::empty(shape, at::TensorOptions(type));
  for_each_array(field, piece, [](const at::Tensor& own, const at::Tensor& callers) { own.copy_(callers); });
  return piece;
}

void write(const Field& field, const at::Tensor& piece) {
  for_each_array(field, piece, [](const at::Tensor& own, const at::Tensor& callers) { callers.copy_(own); });
}

}  // namespace adjoin::c
