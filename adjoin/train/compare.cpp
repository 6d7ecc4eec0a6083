#include "adjoin/train/compare.hpp"

#include <ATen/core/Tensor.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <sstream>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/store/safetensors.hpp"
#include "adjoin/train/run_files.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// What no two runs have alike.
const std::set<std::string> kTimes{"tokens_per_second",     "step_seconds", "waiting_seconds",
                                   "communicating_seconds", "slowest_rank", "flops_per_second"};

/// An element's bits as they stand in memory, the highest first: "0x7fc00001".
std::string bits_of(const at::Tensor& value) {
  const auto* const bytes = static_cast<const uint8_t*>(value.const_data_ptr());
  std::string text = "0x";
  for (int64_t byte = value.element_size(); byte-- > 0;) {
    text += "0123456789abcdef"[bytes[byte] >> 4];
    text += "0123456789abcdef"[bytes[byte] & 15];
  }
  return text;
}

std::string text_of(const at::Tensor& value) {
  if (value.isnan().item<bool>()) return "nan of bits " + bits_of(value);  // of which there are many
  const c10::Scalar number = value.item();
  if (number.isComplex()) {
    const auto value = number.toComplexDouble();
    return shortest_text(value.real()) + " + " + shortest_text(value.imag()) + " i";
  }
  if (!number.isFloatingPoint()) return std::to_string(number.toLong());
  if (value.scalar_type() == at::kDouble) return shortest_text(number.toDouble());
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number.toFloat()).ptr};
}

std::vector<int64_t> index_at(int64_t element, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t dim = shape.size(); dim-- > 0;) {
    index[dim] = element % shape[dim];
    element /= shape[dim];
  }
  return index;
}

/// Compares one tensor of two files; the difference has its index, values and elements.
std::optional<DifferentTensor> difference_in(const SafetensorsFile& first, const SafetensorsFile& second,
                                             const std::string& name) {
  const auto kind_of = [&](const SafetensorsFile& file) {
    return std::string(safetensors_type(file.dtype(name))) + " [" + joined(file.shape(name)) + "]";
  };
  require(kind_of(first) == kind_of(second), [&] {
    return first.path().string() + " and " + second.path().string() + " are not comparable: tensor '" + name + "' is " +
           kind_of(first) + " and " + kind_of(second);
  });
  const at::Tensor one = first.read(name).view({-1}), other = second.read(name).view({-1});
  const auto bytes_of = [](const at::Tensor& x) { return x.view(at::kByte).view({x.numel(), x.element_size()}); };
  const at::Tensor differs = bytes_of(one).ne(bytes_of(other)).any(1);
  const auto elements = differs.sum().item<int64_t>();
  if (elements == 0) return std::nullopt;
  const auto at = differs.to(at::kByte).argmax().item<int64_t>();  // the first of the largest
  return DifferentTensor{.file = first.path().filename().string(),
                         .name = name,
                         .index = index_at(at, first.shape(name)),
                         .first = text_of(one[at]),
                         .second = text_of(other[at]),
                         .elements = elements,
                         .of_elements = one.numel()};
}

/// Compares all tensors of some pairs of files, of the checkpoint of a step or of none.
void compare_files(const std::vector<std::pair<fs::path, fs::path>>& files, int64_t step, Comparison& all) {
  int64_t tensors = 0, different = 0;
  for (const auto& [first, second] : files) {
    const SafetensorsFile one(first), other(second);
    for (const auto& [some, beside] : {std::pair(&one, &other), std::pair(&other, &one)})
      for (const auto& [name, shape] : some->shapes())
        require(beside->contains(name), [&] {
          return first.string() + " and " + second.string() + " are not comparable: " + beside->path().string() +
                 " has no tensor '" + name + "'";
        });
    for (const auto& [name, shape] : one.shapes()) {
      ++tensors;
      auto found = difference_in(one, other, name);
      if (!found) continue;
      ++different;
      if (!all.tensor) all.tensor = std::move(found);
    }
  }
  all.tensors += tensors;
  if (all.tensor) all.tensor->step = step, all.tensor->tensors = different, all.tensor->of_tensors = tensors;
}

void compare_checkpoints(const fs::path& first, const fs::path& second, int64_t step, Comparison& all) {
  compare_files({{first / kWeightsFile, second / kWeightsFile}, {first / kMomentsFile, second / kMomentsFile}}, step,
                all);
  all.checkpoints += 1;
}

using Lines = std::map<std::pair<int64_t, std::string>, Json>;  // by step and kind

Lines metrics_of(const fs::path& run) {
  std::istringstream text(text_or_nothing(run / kMetrics));
  Lines lines;
  for (std::string line; std::getline(text, line);) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json["step"].is_number_integer() || !json["kind"].is_string()) continue;  // being written
    lines.insert_or_assign({json["step"].get<int64_t>(), json["kind"].get<std::string>()}, std::move(json));
  }
  return lines;
}

std::optional<DifferentNumber> difference_in(const Json& one, const Json& other, int64_t step,
                                             const std::string& kind) {
  for (const Json* some : {&one, &other})
    for (const auto& [key, value] : some->items()) {
      if (kTimes.contains(key) || (key == "hash" && !(one.contains(key) && other.contains(key)))) continue;
      const auto text = [&](const Json& json) { return json.contains(key) ? json[key].dump() : "none"; };
      if (text(one) != text(other)) return DifferentNumber{kind, key, step, text(one), text(other)};
    }
  return std::nullopt;
}

/// Compares what both runs have, in the order of steps, until a line and a checkpoint or the models differ.
Comparison compare_runs(const fs::path& first, const fs::path& second) {
  Comparison all;
  const Lines lines = metrics_of(first), others = metrics_of(second);
  int64_t in_both = 0;
  for (const auto& [place, line] : lines) {
    const auto other = others.find(place);
    if (other == others.end()) continue;
    ++in_both;
    if (all.number) continue;
    all.steps += place.second == "step" ? 1 : 0;
    all.number = difference_in(line, other->second, place.first, place.second);
  }
  std::map<int64_t, fs::path> beside;
  for (const CheckpointFolder& checkpoint : checkpoints_in(second)) beside.emplace(checkpoint.step, checkpoint.path);
  const std::vector<CheckpointFolder> newest_first = checkpoints_in(first);
  for (const CheckpointFolder& checkpoint : newest_first | std::views::reverse)
    if (const auto other = beside.find(checkpoint.step); other != beside.end()) {
      ++in_both;
      if (!all.tensor) compare_checkpoints(checkpoint.path, other->second, checkpoint.step, all);
    }
  require(in_both > 0, [&] {
    return first.string() + " and " + second.string() + " have no step in common, so there is nothing to compare";
  });
  const bool has_model = fs::exists(first / kWeightsFile), has_other = fs::exists(second / kWeightsFile);
  if (has_model && has_other && !all.tensor) compare_files({{first / kWeightsFile, second / kWeightsFile}}, 0, all);
  all.alone = std::ssize(lines) + std::ssize(others) + std::ssize(newest_first) + std::ssize(beside) - 2 * in_both +
              (has_model != has_other ? 1 : 0);
  return all;
}

std::string kind_at(const fs::path& path) {
  require(fs::exists(path), [&] { return path.string() + ": there is no such file or folder"; });
  if (!fs::is_directory(path)) return "a file";
  if (fs::exists(path / kMetrics) || has_checkpoint(path)) return "a run";
  require(fs::exists(path / kStateFile),
          [&] { return path.string() + ": is neither the folder of a run nor a checkpoint nor a safetensors file"; });
  return "a checkpoint";
}

/// Throws: InvalidArgument for two folders whose sums were divided by other numbers
void check_same_numbers(const fs::path& first, const fs::path& second) {
  const auto numbers_of = [](const fs::path& folder) -> std::string {
    const Json json = Json::parse(text_or_nothing(folder / "config.json"), nullptr, /*allow_exceptions=*/false);
    return json.is_object() ? json.value("same_bits", "off") : "off";
  };
  const std::string one = numbers_of(first), other = numbers_of(second);
  require(one == other || one == "off" || other == "off", [&] {
    return first.string() + " and " + second.string() + " are not comparable: --same-bits was " + one + " and " + other;
  });
}

}  // namespace

Comparison compare(const fs::path& first, const fs::path& second) {
  std::string kind, other;
  on_disk([&] { kind = kind_at(first), other = kind_at(second); });
  require(kind == other, [&] {
    return first.string() + " is " + kind + " and " + second.string() + " is " + other + "; expected two of a kind";
  });
  if (kind != "a file") check_same_numbers(first, second);
  if (kind == "a run") return compare_runs(first, second);
  Comparison all;
  kind == "a file" ? compare_files({{first, second}}, 0, all) : compare_checkpoints(first, second, 0, all);
  return all;
}

}  // namespace adjoin::train
