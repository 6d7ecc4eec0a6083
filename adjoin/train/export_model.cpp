#include "adjoin/train/export_model.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/hugging_face/export_tokenizer.hpp"
#include "adjoin/hugging_face/pretrained.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/program/program.hpp"
#include "adjoin/program/save_state.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/read_piece.hpp"
#include "adjoin/store/state_sums.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/task/transformer_options.hpp"
#include "adjoin/tensors/program_segment.hpp"
#include "adjoin/texts/language_modelling.hpp"
#include "adjoin/texts/reviews_input.hpp"
#include "adjoin/texts/text_classification.hpp"
#include "adjoin/train/saved_model.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// A tensor of the family whose rows are rows of one of ours.
struct ExportedTensor {
  TensorEntry entry;
  std::string ours;
  int64_t first_row, rows;
  bool is_transposed;
};

/// The family of a folder of transformers if it can express the model, else the first family that can.
const Family& family_for(const SavedModel& saved) {
  std::vector<const Family*> candidates;
  if (is_pretrained(saved.folder->path())) candidates.push_back(&family_of(read_config(saved.folder->path())));
  for (const Family& family : families()) candidates.push_back(&family);
  std::string reasons;
  for (const Family* family : candidates) {
    const std::string reason = not_expressed(*family, saved.configuration);
    if (reason.empty()) return *family;
    if (family->model == saved.configuration.model)
      reasons += (reasons.empty() ? "" : ", ") + std::string(family->model_type) + " has no " + reason;
  }
  throw InvalidArgument(saved.folder->path().string() + ": transformers has no such model: " + reasons);
}

/// How many of our tensor's rows each of the family's tensors has.
std::vector<int64_t> rows_of_parts(const std::string& ours, size_t parts, int64_t rows, const Configuration& c) {
  if (parts == 3) {
    const int64_t key_heads = c.heads_of_keys(), size = rows / (c.heads + 2 * key_heads);
    return {c.heads * size, key_heads * size, key_heads * size};
  }
  if (rows % static_cast<int64_t>(parts) != 0) throw InternalError(ours + ": its rows do not make equal parts");
  return std::vector<int64_t>(parts, rows / static_cast<int64_t>(parts));
}

std::vector<ExportedTensor> exported_tensors(const Family& family, const SavedModel& saved,
                                             const std::map<std::string, StackedTensor>& tensors,
                                             const std::optional<Precision>& precision) {
  std::vector<ExportedTensor> exported;
  for (const auto& [ours, stacked] : tensors) {
    const std::vector<FamilyTensor> theirs = tensors_of(family, ours);
    const std::vector<int64_t> shape = stacked.shape();
    const std::vector<int64_t> rows = rows_of_parts(ours, theirs.size(), shape.front(), saved.configuration);
    int64_t first = 0;
    for (size_t i = 0; i < theirs.size(); ++i) {
      std::vector<int64_t> of_part = shape;
      of_part.front() = rows[i];
      if (theirs[i].is_transposed) std::reverse(of_part.begin(), of_part.end());
      const at::ScalarType type = precision                               ? product_type(*precision)
                                  : stacked.parts.size() == theirs.size() ? stacked.parts[i].dtype()
                                                                          : stacked.dtype();
      const std::string name = (theirs[i].is_head ? "" : std::string(family.prefix)) + theirs[i].name;
      exported.push_back({{name, type, of_part}, ours, first, rows[i], theirs[i].is_transposed});
      first += rows[i];
    }
  }
  std::ranges::sort(exported, {}, [](const ExportedTensor& tensor) { return tensor.entry.name; });
  return exported;
}

/// The tensors of each file.
std::vector<std::vector<ExportedTensor>> shards_of(std::vector<ExportedTensor> tensors, int64_t most_bytes) {
  std::vector<std::vector<ExportedTensor>> shards(1);
  int64_t bytes = 0;
  for (ExportedTensor& tensor : tensors) {
    const int64_t more = bytes_of(tensor.entry);
    if (most_bytes > 0 && !shards.back().empty() && bytes + more > most_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += more;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

std::string shard_name(size_t shard, size_t shards) {
  if (shards == 1) return kWeightsFile;
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, shards);
  return name;
}

/// `from`: where the tensors are, for an error.
void write_shard(const fs::path& from, const fs::path& path, const std::vector<ExportedTensor>& tensors,
                 const std::map<std::string, StackedTensor>& sources) {
  std::vector<TensorEntry> entries;
  std::map<std::string, std::vector<const ExportedTensor*>> by_source;
  for (const ExportedTensor& tensor : tensors) {
    entries.push_back(tensor.entry);
    by_source[tensor.ours].push_back(&tensor);
  }
  make_safetensors(path, entries, {{"format", "pt"}});
  SafetensorsFilling filling(path);
  for (const auto& [ours, parts] : by_source) {
    const at::Tensor whole = read(sources.at(ours));  // read once for all tensors that are rows of it
    for (const ExportedTensor* tensor : parts) {
      at::Tensor rows = whole.narrow(0, tensor->first_row, tensor->rows);
      if (tensor->is_transposed) rows = rows.t();
      const auto check_finite = [&](const char* what) {
        require(at::isfinite(rows).all().item<bool>(),
                [&] { return from.string() + ": tensor '" + tensor->entry.name + "' holds numbers that " + what; });
      };
      check_finite("are not finite");
      rows = rows.to(tensor->entry.dtype).contiguous();
      check_finite("the requested precision cannot represent: they would become infinite");
      filling.write(tensor->entry.name, 0, rows.const_data_ptr(), rows.numel());
    }
  }
  filling.sync();
}

/// PyTorch's name of a type.
std::string name_of(at::ScalarType type) {
  return type == at::kDouble     ? "float64"
         : type == at::kHalf     ? "float16"
         : type == at::kBFloat16 ? "bfloat16"
                                 : "float32";
}

std::vector<std::string> classes_of(const Task& task) {
  const std::string names = content_of_file(task, kClassesFile);
  return names.empty() ? std::vector<std::string>() : Json::parse(names).get<std::vector<std::string>>();
}

std::vector<TaskFile> files_of_tokenizer(const SavedModel& saved, Json& config) {
  const auto* decoder = dynamic_cast<const LanguageModelling*>(saved.task.get());
  if (is_pretrained(saved.folder->path()))
    return copied_tokenizer_files(saved.folder->path(), decoder != nullptr ? &decoder->vocabulary() : nullptr, config);
  const int64_t context = context_of(saved.configuration);
  if (decoder != nullptr) return tokenizer_files(decoder->vocabulary(), context, config);
  return tokenizer_files(dynamic_cast<const TextClassification&>(*saved.task).tokenizer(), context, config);
}

void check_place(const fs::path& out) {
  std::error_code error;
  const auto status = fs::status(out, error);
  if (!fs::exists(status)) return;
  require(fs::is_directory(status) && fs::is_empty(out, error) && !error,
          [&] { return "--out " + out.string() + ": exists and is not an empty folder"; });
}

fs::path without_last_slash(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  return folder.has_filename() && folder.filename() != "." && folder.filename() != ".." ? folder
         : whole.has_filename()                                                         ? whole
                                                                                        : whole.parent_path();
}

/// Moves what was written to its place, config.json last. If the folder exists, it is kept and filled, as it may be somebody's
/// current folder.
void publish(const fs::path& fresh, const fs::path& out) {
  if (!fs::exists(out)) return fs::rename(fresh, out);
  for (const auto& file : fs::directory_iterator(fresh))
    if (file.path().filename() != "config.json") fs::rename(file.path(), out / file.path().filename());
  fs::rename(fresh / "config.json", out / "config.json");
  fs::remove(fresh);
}

/// Writes the weights of a run as the state_dict of the module in Python.
ExportResult export_program_state(const SavedModel& saved, const ExportRequest& request) {
  require(!request.precision && request.shard_bytes == 0,
          "--precision and --shard-size are for models of transformers, and this one is a program");
  const auto net = program::load_program(saved.configuration.program);
  const std::map<std::string, StackedTensor> sources = saved.folder->weights();
  const at::NoGradGuard no_gradient;
  ExportResult result{.architecture = saved.configuration.program, .files = 1, .has_tokenizer = true};
  for (const parallel::NamedTensor& tensor : parallel::tensors_of(*net)) {
    at::Tensor(tensor.tensor).copy_(read(sources.at(std::string(kProgramPart) + "." + tensor.name)));
    ++result.tensors;
    result.bytes += static_cast<int64_t>(tensor.tensor.nbytes());
  }
  program::save_state(*net, request.out);
  return result;
}

}  // namespace

ExportResult export_model(const ExportRequest& request) {
  const fs::path out = without_last_slash(request.out);
  fs::path fresh = out;
  fresh += ".adjoin-new";
  const SavedModel saved = open_model({request.model, request.step});
  if (saved.configuration.has_program()) return export_program_state(saved, request);
  check_place(out);
  const Family& family = family_for(saved);
  const std::map<std::string, StackedTensor> sources = saved.folder->weights();
  const auto shards = shards_of(exported_tensors(family, saved, sources, request.precision), request.shard_bytes);
  ExportResult result{.architecture = std::string(family.architecture), .files = std::ssize(shards)};
  Json places;
  at::ScalarType widest =
      shards.front().front().entry.dtype;  // transformers makes all weights of the type in config.json
  for (size_t i = 0; i < shards.size(); ++i)
    for (const ExportedTensor& tensor : shards[i]) {
      ++result.tensors;
      result.bytes += bytes_of(tensor.entry);
      widest = c10::promoteTypes(widest, tensor.entry.dtype);
      places[tensor.entry.name] = shard_name(i, shards.size());
    }
  Json config =
      to_config(family, saved.configuration, sources.at("embedding.weight").shape().front(), classes_of(*saved.task));
  config["torch_dtype"] = name_of(widest);
  const std::vector<TaskFile> of_tokenizer = files_of_tokenizer(saved, config);
  result.has_tokenizer = !of_tokenizer.empty();
  on_disk([&] {
    fs::remove_all(fresh);
    fs::create_directories(fresh);
    try {
      for (size_t i = 0; i < shards.size(); ++i)
        write_shard(saved.folder->path(), fresh / shard_name(i, shards.size()), shards[i], sources);
      if (shards.size() > 1)
        write_atomically(fresh / "model.safetensors.index.json",
                         Json{{"metadata", {{"total_size", result.bytes}}}, {"weight_map", places}}.dump(2) + "\n");
      for (const TaskFile& file : of_tokenizer) write_atomically(fresh / file.name, file.content);
      write_atomically(fresh / "config.json", config.dump(2) + "\n");
      publish(fresh, out);
    } catch (...) {
      std::error_code ignored;
      fs::remove_all(fresh, ignored);
      throw;
    }
  });
  return result;
}

}  // namespace adjoin::train
