#include "adjoin/program/save_state.hpp"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/program/archive.hpp"
#include "adjoin/program/weights.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/fail_alike.hpp"
#include "adjoin/store/on_root.hpp"
#include "adjoin/store/output_file.hpp"

namespace adjoin::program {

namespace {

namespace fs = std::filesystem;
using Pieces = std::vector<nn::Parameter>;

/// The program's own file with the weights of another, of which one record at a time is in memory.
void write_program(const Program& net, const fs::path& weights, const fs::path& path) {
  const Archive archive(net.path());
  const train::SafetensorsFile state(weights);
  caffe2::serialize::PyTorchStreamWriter writer(path.string());
  for_each_record_with(
      archive, "data/weights/model_weights_config.json",
      [&](const std::string& name) { return state.contains(name) ? state.read(name) : at::Tensor(); },
      [&](const std::string& record, const std::string& bytes) {
        if (record.starts_with(".data/") || record == "byteorder" || record == "version")
          return;  // which it writes itself
        writer.writeRecord(record, bytes.data(), bytes.size());
      });
  writer.writeEndOfFile();
}

/// What Python's state_dict has, under all its names.
Pieces of_state(const Program& net, Pieces pieces) {
  std::erase_if(pieces,
                [&](const nn::Parameter& piece) { return std::ranges::count(net.passing_buffers(), piece.name) > 0; });
  for (const auto& [name, first] : net.shared_names()) {
    pieces.push_back(*std::ranges::find(pieces, first, &nn::Parameter::name));
    pieces.back().name = name;
  }
  return pieces;
}

void write(const Program& net, Pieces pieces, const Grid& grid, const fs::path& path) {
  pieces = of_state(net, std::move(pieces));
  if (path.extension() != ".pt2") return train::save_state(path, pieces, grid, {{"format", "pt"}});
  fs::path weights = path, unfinished = path;
  weights += ".adjoin-weights";
  unfinished += ".adjoin-new";
  train::save_state(weights, pieces, grid);
  const Communicator workers = grid.group_of(grid.shape().ranks());
  std::exception_ptr error;
  train::on_root(workers, "writing " + path.string(), [&] {
    try {
      write_program(net, weights, unfinished);
      train::publish_file(unfinished, path);
    } catch (...) {
      error = std::current_exception();
    }
    std::error_code ignored;
    fs::remove(weights, ignored);
    fs::remove(unfinished, ignored);
  });
  train::fail_alike(workers, [&] {
    if (error) std::rethrow_exception(error);
  });
}

}  // namespace

void save_state(const Program& net, const fs::path& path) {
  const std::vector<parallel::NamedTensor> tensors = parallel::tensors_of(net);
  const auto global = std::ranges::find_if(tensors, [](const auto& one) { return is_global(one.tensor); });
  const Grid grid = global == tensors.end() ? Grid(Communicator(), {{"dp", 1}}) : piece_of(global->tensor).home->grid;
  Pieces pieces;
  for (const auto& [name, tensor, is_buffer] : tensors) {
    const DistributedTensor piece = is_global(tensor)
                                        ? local_of(tensor.detach())
                                        : DistributedTensor{tensor, Layout(grid.shape(), tensor.sizes().vec()), grid};
    pieces.push_back({name, piece.local, piece.layout, grid, {}, is_buffer});
  }
  write(net, std::move(pieces), grid, path);
}

void save_state(const Program& net, const std::vector<nn::Parameter>& pieces, const fs::path& path) {
  const Communicator world = pieces.empty() ? Communicator() : pieces.front().grid.world();
  write(net, pieces, Grid(world, {{"dp", world.size()}}), path);
}

}  // namespace adjoin::program
