#include "adjoin/train/checkpoint.hpp"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/blocks.hpp"
#include "adjoin/train/on_root.hpp"
#include "adjoin/train/read_checkpoint.hpp"
#include "adjoin/train/safetensors.hpp"

namespace adjoin::train {
namespace {

using parallel::Moment;

/// A tensor of the file: a parameter's piece, or one that is cut as it is.
struct Named {
  std::string name;
  nn::Parameter parameter;
  std::function<at::Tensor()> local;  // called by all workers of the grid in the same order
};

/// The workers of dp's coordinate 0 hold every piece; the others only help to make them.
void save(const std::filesystem::path& path, const std::vector<Named>& tensors, const Grid& grid,
          const Metadata& metadata) {
  const at::NoGradGuard no_gradient;
  std::vector<TensorEntry> entries;
  for (const auto& [name, parameter, local] : tensors)
    entries.push_back({name, parameter.tensor.scalar_type(), parameter.shard.shape});
  const auto get = [&](size_t i) {
    const at::Tensor local = tensors[i].local();
    const nn::Shard& shard = tensors[i].parameter.shard;
    return shard.split && grid.coordinate("dp") == 0 ? join_blocks(local, shard.group, *shard.split) : local;
  };
  const Communicator& world = grid.world();
  const std::string what = "writing " + path.string();
  std::optional<SafetensorsWriter> file;  // of rank 0
  on_root(world, what, [&] { file.emplace(path, entries, metadata); });
  for (const size_t i : writing_order(entries)) {
    const at::Tensor tensor = get(i).contiguous();
    on_root(world, what, [&] { file->write(tensor); });
  }
  on_root(world, what, [&] { file->publish(); });
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
  require(at::isFloatingType(file.dtype(name)),
          [&] { return path.string() + ": tensor '" + name + "' is of " + c10::toString(file.dtype(name)); });
  if (!shard.split) return file.read(name);
  std::vector<at::Tensor> pieces;
  for (const Range& range : shard.split->ranges(shard.group.rank()))
    pieces.push_back(file.read(name, shard.split->dim(), range.begin, range.end));
  return pieces.size() == 1 ? pieces[0] : at::cat(pieces, shard.split->dim());
}

std::string moment_name(const nn::Parameter& parameter, Moment moment) {
  return (moment == Moment::first ? "first." : "second.") + parameter.name;
}

}  // namespace

void save_weights(const std::filesystem::path& path, const torch::nn::Module& model, const Grid& grid,
                  const Metadata& metadata) {
  std::vector<Named> tensors;
  for (const nn::Parameter& p : nn::parameters_of(model))
    tensors.push_back({p.name, p, [tensor = p.tensor] { return tensor.detach(); }});
  save(path, tensors, grid, metadata);
}

void load_weights(const std::filesystem::path& path, const torch::nn::Module& model,
                  const std::optional<std::string>& checkpoint) {
  const at::NoGradGuard no_gradient;
  const SafetensorsFile file(path);
  if (checkpoint) check_belongs(file, path, *checkpoint);
  const std::vector<nn::Parameter> parameters = nn::parameters_of(model);
  for (const std::string& name : file.names())
    require(std::any_of(parameters.begin(), parameters.end(), [&](const nn::Parameter& p) { return p.name == name; }),
            [&] { return path.string() + ": the model has no tensor '" + name + "'"; });
  for (const nn::Parameter& parameter : parameters)
    parameter.tensor.copy_(read_piece(file, path, parameter.name, parameter));
}

void save_moments(const std::filesystem::path& path, const parallel::DataParallelAdamW& optimizer, const Grid& grid,
                  const Metadata& metadata) {
  const std::vector<nn::Parameter> parameters = optimizer.parameters();
  std::vector<Named> tensors;
  for (size_t i = 0; i < parameters.size(); ++i)
    for (const Moment moment : {Moment::first, Moment::second})
      tensors.push_back({moment_name(parameters[i], moment), parameters[i],
                         [&optimizer, i, moment] { return optimizer.moment(i, moment); }});
  save(path, tensors, grid, metadata);
}

void load_moments(const std::filesystem::path& path, int64_t steps, parallel::DataParallelAdamW& optimizer,
                  const std::optional<std::string>& checkpoint) {
  const SafetensorsFile file(path);
  if (checkpoint) check_belongs(file, path, *checkpoint);
  optimizer.load_state(steps, [&](const nn::Parameter& parameter, Moment moment) {
    return read_piece(file, path, moment_name(parameter, moment), parameter);
  });
}

}  // namespace adjoin::train
