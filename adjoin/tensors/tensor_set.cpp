#include "adjoin/tensors/tensor_set.hpp"

#include <ATen/ops/arange.h>

#include <algorithm>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/store/npy.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kHeldOut = 10;  // every so manieth sample is for testing

void add_npy(TensorSet& set, const fs::path& file) {
  set.tensors[file.stem().string()] = read_npy(file);
}

/// train.safetensors or the folder train in a folder of data; "" if it has neither.
fs::path part_in(const fs::path& folder, const std::string& name) {
  if (fs::is_regular_file(folder / (name + ".safetensors"))) return folder / (name + ".safetensors");
  return fs::is_directory(folder / name) ? folder / name : "";
}

TensorSet chosen(const TensorSet& set, bool held_out) {
  const at::Tensor numbers = at::arange(set.samples(), at::kLong);
  const at::Tensor is_held_out = numbers.remainder(kHeldOut).eq(kHeldOut - 1);
  const at::Tensor samples = numbers.masked_select(held_out ? is_held_out : is_held_out.logical_not());
  TensorSet part{.place = set.place};
  for (const auto& [name, tensor] : set.tensors) part.tensors[name] = tensor.index_select(0, samples);
  return part;
}

}  // namespace

TensorSet TensorSet::part(int64_t first, int64_t count) const {
  TensorSet part{.place = place};
  for (const auto& [name, tensor] : tensors)
    part.tensors[name] = tensor.narrow(0, first, std::min(count, samples() - first));
  return part;
}

TensorSet read_tensors(const fs::path& path) {
  TensorSet set{.place = path.string()};
  require(fs::exists(path), [&] { return set.place + ": there is no such file or folder"; });
  if (fs::is_directory(path)) {
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".npy") files.insert(entry.path());
    require(!files.empty(), [&] { return set.place + ": has no tensors: no NAME.npy, and no train.safetensors"; });
    for (const fs::path& file : files) add_npy(set, file);
  } else if (path.extension() == ".npy") {
    add_npy(set, path);
  } else {
    const SafetensorsFile file(path);
    for (const auto& [name, shape] : file.shapes()) set.tensors[name] = file.read(name);
    require(!set.tensors.empty(), [&] { return set.place + ": has no tensors"; });
  }
  const std::string& first = set.tensors.begin()->first;
  for (const auto& [name, tensor] : set.tensors) {
    require(tensor.dim() > 0,
            [&] { return set.place + ": \"" + name + "\" is one number, expected one sample after another"; });
    require(tensor.size(0) == set.samples(), [&] {
      return set.place + ": \"" + name + "\" has " + std::to_string(tensor.size(0)) + " samples, and \"" + first +
             "\" " + std::to_string(set.samples());
    });
  }
  require(set.samples() > 0, [&] { return set.place + ": has no samples"; });
  return set;
}

TensorSet read_test_tensors(const std::string& path) {
  const fs::path of_test = part_in(path, "test");
  return read_tensors(of_test.empty() ? fs::path(path) : of_test);
}

TensorParts read_tensor_parts(const std::string& data, const std::string& test) {
  TensorParts parts;
  const fs::path of_train = part_in(data, "train"), of_test = part_in(data, "test");
  if (!test.empty()) parts.test = read_tensors(test);
  if (!of_train.empty()) {
    parts.train = read_tensors(of_train);
    require(!test.empty() || !of_test.empty(),
            [&] { return data + ": has a part train, and none that is called test"; });
    if (test.empty()) parts.test = read_tensors(of_test);
  } else {
    parts.train = read_tensors(data);
    if (!test.empty()) return parts;
    require(parts.train.samples() >= kHeldOut, [&] {
      return data + ": expected at least " + std::to_string(kHeldOut) + " samples, as every tenth is held out for " +
             "testing, got " + std::to_string(parts.train.samples());
    });
    parts.test = chosen(parts.train, /*held_out=*/true);
    parts.train = chosen(parts.train, /*held_out=*/false);
  }
  return parts;
}

}  // namespace adjoin::train
