#include "adjoin/train/checkpoint.hpp"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/blocks.hpp"
#include "adjoin/train/safetensors.hpp"

namespace adjoin::train {
namespace {

/// A local tensor that is cut as a parameter is.
struct Named {
  std::string name;
  nn::Parameter parameter;
  at::Tensor local;
};

at::Tensor global_tensor(const Named& named) {
  const nn::Shard& shard = named.parameter.shard;
  return shard.split ? join_blocks(named.local, shard.group, *shard.split) : named.local;
}

/// The workers of dp's coordinate 0 hold every piece; the others have nothing to add.
void save(const std::filesystem::path& path, const std::vector<Named>& tensors, const Grid& grid) {
  if (grid.coordinate("dp") != 0) return;
  std::vector<TensorEntry> entries;
  for (const Named& named : tensors)
    entries.push_back({named.name, named.local.scalar_type(), named.parameter.shard.shape});
  const auto get = [&](size_t i) { return global_tensor(tensors[i]); };
  if (grid.cell() == 0) return write_safetensors(path, entries, get);
  for (const size_t i : writing_order(entries)) get(i);
}

std::string text(const std::vector<int64_t>& shape) {
  std::string result;
  for (const int64_t size : shape) result += (result.empty() ? "[" : ", ") + std::to_string(size);
  return result.empty() ? "[]" : result + "]";
}

/// This worker's piece of a global tensor in a file.
at::Tensor read_piece(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& name,
                      const nn::Parameter& parameter) {
  const nn::Shard& shard = parameter.shard;
  require(file.contains(name), [&] { return path.string() + ": there is no tensor '" + name + "'"; });
  require(file.shape(name) == shard.shape, [&] {
    return path.string() + ": tensor '" + name + "' is " + text(file.shape(name)) + ", the model's is " +
           text(shard.shape);
  });
  if (!shard.split) return file.read(name);
  std::vector<at::Tensor> pieces;
  for (const Range& range : shard.split->ranges(shard.group.rank()))
    pieces.push_back(file.read(name, shard.split->dim(), range.begin, range.end));
  return pieces.size() == 1 ? pieces[0] : at::cat(pieces, shard.split->dim());
}

}  // namespace

void save_weights(const std::filesystem::path& path, const torch::nn::Module& model, const Grid& grid) {
  const at::NoGradGuard no_gradient;
  std::vector<Named> tensors;
  for (const nn::Parameter& parameter : nn::parameters_of(model))
    tensors.push_back({parameter.name, parameter, parameter.tensor.detach()});
  save(path, tensors, grid);
}

void load_weights(const std::filesystem::path& path, const torch::nn::Module& model) {
  const at::NoGradGuard no_gradient;
  const SafetensorsFile file(path);
  const std::vector<nn::Parameter> parameters = nn::parameters_of(model);
  for (const std::string& name : file.names())
    require(std::any_of(parameters.begin(), parameters.end(), [&](const nn::Parameter& p) { return p.name == name; }),
            [&] { return path.string() + ": the model has no tensor '" + name + "'"; });
  for (const nn::Parameter& parameter : parameters)
    parameter.tensor.copy_(read_piece(file, path, parameter.name, parameter));
}

void save_moments(const std::filesystem::path& path, const parallel::DataParallelAdamW& optimizer, const Grid& grid) {
  std::vector<Named> tensors;
  optimizer.for_each_state([&](const nn::Parameter& parameter, const at::Tensor& first, const at::Tensor& second) {
    tensors.push_back({"first." + parameter.name, parameter, first});
    tensors.push_back({"second." + parameter.name, parameter, second});
  });
  save(path, tensors, grid);
}

void load_moments(const std::filesystem::path& path, int64_t steps, parallel::DataParallelAdamW& optimizer) {
  const SafetensorsFile file(path);
  optimizer.load_state(
      steps, [&](const nn::Parameter& p) { return read_piece(file, path, "first." + p.name, p); },
      [&](const nn::Parameter& p) { return read_piece(file, path, "second." + p.name, p); });
}

}  // namespace adjoin::train
