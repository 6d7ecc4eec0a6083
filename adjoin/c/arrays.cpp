#include "adjoin/c/arrays.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
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

int64_t size_along(int32_t dim, const adjoin_array& array) {
  return dim >= 0 ? array.sizes[dim] : 1;
}

bool has_cells(const Field& field) {
  return std::ranges::find(field.piece, 0) == field.piece.end();
}

/// Whether no element is beyond what memory can be, and, where they are written, each one has memory of its own.
bool has_own_memory(const Field& field, const adjoin_array& array) {
  std::vector<std::pair<double, double>> dims;  // strides and sizes
  for (int32_t d = 0; d < array.dims; ++d) {
    if (array.sizes[d] == 0) return true;
    if (array.sizes[d] > 1)
      dims.emplace_back(static_cast<double>(array.strides[d]), static_cast<double>(array.sizes[d]));
  }
  std::ranges::sort(dims);
  double reach = 1;  // of the elements in the dims so far
  for (const auto& [stride, size] : dims) {
    if (field.is_written && stride < reach) return false;
    reach += stride * (size - 1);
  }
  return reach < 0x1p59;
}

void check(const Field& field, const adjoin_array& array, const std::string& lead) {
  const auto expect = [&](bool holds, const auto&... what) { require(holds, lead, what...); };
  expect(array.struct_size == sizeof(adjoin_array), "struct_size: expected ", sizeof(adjoin_array), ", got ",
         array.struct_size);
  if (array.device != 0) throw Failure{ADJOIN_UNSUPPORTED, lead + "device: there is only the CPU, 0"};
  type_of(lead.c_str(), array.type);
  expect(array.dims >= 1 && array.dims <= ADJOIN_MOST_DIMS, "dims: expected 1 to 8, got ", array.dims);
  for (const auto& [name, dim] : {std::pair("channel_dim", array.channel_dim), {"batch_dim", array.batch_dim}})
    expect(dim >= -1 && dim < array.dims, name, ": expected -1 or one of the array's dims, got ", dim);
  expect(array.channel_dim < 0 || array.channel_dim != array.batch_dim, "channel_dim and batch_dim are one dim");
  const std::vector<int32_t> space = space_of(field, array);
  expect(space.size() == field.space, "expected ", field.space,
         " dims of space besides those of channels and of the batch, got ", space.size());
  for (int32_t d = 0; d < array.dims; ++d)
    expect(array.sizes[d] >= 0 && array.strides[d] >= 0, "a size or a stride is negative");
  if (!has_cells(field)) return;
  expect(has_own_memory(field, array), "strides: expected elements within memory",
         field.is_written ? " of their own" : "");
  const int64_t* const cells = field.piece.data() + 2;  // after samples and channels
  for (size_t d = 0; d < field.space; ++d)
    expect(array.sizes[space[d]] == cells[d], ordinal(space[d]), " dim: expected the block's ", cells[d],
           " cells, got ", array.sizes[space[d]]);
  expect(array.data != nullptr, "data: expected memory, got null");
}

/// The caller's memory as [batch, channels, *cells].
at::Tensor view_of(const Field& field, const adjoin_array& array) {
  std::vector<int32_t> dims = space_of(field, array);
  dims.insert(dims.begin(), {array.batch_dim, array.channel_dim});
  std::vector<int64_t> sizes, strides;
  for (const int32_t d : dims) {
    sizes.push_back(size_along(d, array));
    strides.push_back(d >= 0 ? array.strides[d] : 1);
  }
  return at::from_blob(array.data, sizes, strides, at::TensorOptions(type_of("type", array.type)));
}

/// Calls copy(channels of the piece, the caller's memory as [batch, channels, *cells]) for each array.
template <class Copy>
void for_each_array(const Field& field, const at::Tensor& piece, const Copy& copy) {
  if (!has_cells(field)) return;
  int64_t channel = 0;
  for (const adjoin_array& array : std::span(field.arrays, static_cast<size_t>(field.count))) {
    const int64_t channels = size_along(array.channel_dim, array);
    copy(piece.narrow(1, channel, channels), view_of(field, array));
    channel += channels;
  }
}

}  // namespace

at::ScalarType type_of(const char* name, int32_t type) {
  require(type == ADJOIN_FLOAT32 || type == ADJOIN_FLOAT64, name,
          "type: expected ADJOIN_FLOAT32 (0) or ADJOIN_FLOAT64 (1), got ", type);
  return type == ADJOIN_FLOAT32 ? at::kFloat : at::kDouble;
}

int64_t batch_of(const Field& field) {
  require(field.count >= 0 && field.count <= 4096 && (field.count == 0 || field.arrays != nullptr), field.name,
          ": expected arrays, got ", field.count, (field.arrays ? "" : " at null"));
  int64_t channels = 0, batch = 1;
  for (int32_t i = 0; i < field.count; ++i) {
    const adjoin_array& array = field.arrays[i];
    const std::string lead = ordinal(i) + " array of " + field.name + ": ";
    check(field, array, lead);
    const int64_t samples = size_along(array.batch_dim, array);
    require(samples >= 1, lead, "expected a batch of at least 1 sample");
    require(i == 0 || samples == batch, lead, "expected ", batch, " samples as in the first, got ", samples);
    batch = samples;
    channels += size_along(array.channel_dim, array);
  }
  require(channels == field.channels, field.name, ": expected ", field.channels, " channels, got ", channels);
  return batch;
}

void read_into(const at::Tensor& piece, const Field& field) {
  for_each_array(field, piece, [](const at::Tensor& own, const at::Tensor& callers) { own.copy_(callers); });
}

at::Tensor read(const Field& field, at::ScalarType type) {
  std::vector<int64_t> shape = field.piece;
  if (shape.size() > 1) {
    shape[0] = size_along(field.arrays[0].batch_dim, field.arrays[0]);
    shape[1] = field.channels;
  }
  at::Tensor piece = at::empty(shape, at::TensorOptions(type));
  read_into(piece, field);
  return piece;
}

void write(const Field& field, const at::Tensor& piece) {
  for_each_array(field, piece, [](const at::Tensor& own, const at::Tensor& callers) { callers.copy_(own); });
}

}  // namespace adjoin::c
