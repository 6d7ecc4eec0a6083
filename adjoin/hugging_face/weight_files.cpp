#include "adjoin/hugging_face/weight_files.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/store/read_text.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char *kWeights = "model.safetensors", *kIndex = "model.safetensors.index.json";

/// The file of each tensor according to the index. Throws: InvalidArgument for a tensor that it names twice
std::map<std::string, std::string> read_index(const fs::path& path) {
  std::map<std::string, std::string> places;
  std::set<std::string> names;
  const auto once = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 2)
      require(names.insert(parsed.get<std::string>()).second,
              [&] { return path.string() + ": names the tensor " + parsed.dump() + " twice"; });
    return true;
  };
  try {
    places = Json::parse(read_text(path), once).at("weight_map").get<decltype(places)>();
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument(path.string() + ": this is not an index of weights");
  }
  for (const auto& [tensor, file] : places)
    require(!file.empty() && file != ".." && file.find('/') == file.npos,
            [&] { return path.string() + ": names a file outside of the folder, \"" + file + "\""; });
  return places;
}

void add_file(const fs::path& path, WeightFiles& files) {
  const auto file = std::make_shared<const SafetensorsFile>(path);
  for (const auto& [name, shape] : file->shapes())
    require(files.emplace(name, file).second,
            [&] { return path.string() + ": holds the tensor '" + name + "', which another file holds too"; });
}

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

/// Whether it is something that old files have besides weights and that can be computed.
bool is_computed(const std::string& name) {
  return ends_with_any(name, {".attn.bias", ".attn.masked_bias", "position_ids", "rotary_emb.inv_freq"});
}

bool hold_the_same(const SafetensorsFile& a, const StoredTensor& x, const SafetensorsFile& b, const StoredTensor& y) {
  constexpr int64_t kAtOnce = 1 << 20;
  if (x.dtype != y.dtype || x.shape != y.shape) return false;
  std::vector<char> of_a(kAtOnce), of_b(kAtOnce);
  for (int64_t done = 0; done < x.end - x.begin; done += kAtOnce) {
    const int64_t count = std::min(kAtOnce, x.end - x.begin - done);
    a.read_bytes(of_a.data(), count, x.begin + done);
    b.read_bytes(of_b.data(), count, y.begin + done);
    if (std::memcmp(of_a.data(), of_b.data(), static_cast<size_t>(count)) != 0) return false;
  }
  return true;
}

class Finder {
 public:
  /// `is_tied`: the scores of a decoder are computed by its embedding.
  Finder(const Family& family, const WeightFiles& files, bool is_tied)
      : family_(family), files_(files), is_tied_(is_tied) {}

  StackedTensor find(const std::string& ours) {
    StackedTensor stacked;
    for (const FamilyTensor& tensor : tensors_of(family_, ours)) {
      auto found = place(tensor);
      if (!found && is_tied_ && ours == "embedding.weight") found = place(scores());
      if (!found) return {};
      used_.insert((*found)->first);
      stacked.parts.push_back({(*found)->second, (*found)->first, tensor.is_transposed});
    }
    return stacked;
  }
  /// Ignores separate scores in the file if they are tied to the embedding: they are the same numbers again.
  void pass_over_tied_scores() {
    if (!is_tied_) return;
    const auto separate = place(scores()), embedding = place(tensors_of(family_, "embedding.weight").front());
    if (!separate || !embedding) return;
    const auto& [name, file] = **separate;
    const auto& [tied_to, other] = **embedding;
    require(hold_the_same(*file, file->find(name), *other, other->find(tied_to)), [&] {
      return "tensor '" + name + "' is not equal to '" + tied_to +
             "', though \"tie_word_embeddings\" in config.json is true: set it to false to use both";
    });
    used_.insert(name);
  }
  /// The name that the first missing part of our tensor should have in the folder, for an error.
  std::string missing_name(const std::string& ours) const {
    const bool has_prefix =
        std::ranges::any_of(files_, [&](const auto& file) { return file.first.starts_with(family_.prefix); });
    const std::vector<FamilyTensor> tensors = tensors_of(family_, ours);
    const auto missing = std::ranges::find_if(tensors, [&](const FamilyTensor& tensor) { return !place(tensor); });
    return (has_prefix && !missing->is_head ? std::string(family_.prefix) : "") + missing->name;
  }
  std::vector<std::string> left_out() const {
    std::set<std::string> heads;
    for (const auto& [name, file] : files_) {
      if (used_.contains(name) || is_computed(name)) continue;
      const std::string_view rest =
          std::string_view(name).substr(name.starts_with(family_.prefix) ? family_.prefix.size() : 0);
      for (const std::string_view root : family_.trunk_roots)
        require(!rest.starts_with(root), [&] { return "the model has no tensor '" + name + "'"; });
      heads.insert(name.substr(0, name.find('.')));
    }
    return {heads.begin(), heads.end()};
  }

 private:
  FamilyTensor scores() const { return tensors_of(family_, "scores.weight").front(); }
  std::optional<WeightFiles::const_iterator> place(const FamilyTensor& tensor) const {
    for (const std::string_view prefix : {tensor.is_head ? std::string_view() : family_.prefix, std::string_view()}) {
      const std::string name = std::string(prefix) + tensor.name;
      if (const auto found = files_.find(name); found != files_.end()) return found;
      if (const auto found = files_.find(old_name(name)); found != files_.end()) return found;
    }
    return std::nullopt;
  }
  /// In old files the tensors of norms are gamma and beta.
  static std::string old_name(const std::string& name) {
    const size_t dot = name.rfind('.');
    if (!name.substr(0, dot).ends_with("LayerNorm")) return name;
    return name.substr(0, dot) + (name.substr(dot) == ".weight" ? ".gamma" : ".beta");
  }

  const Family& family_;
  const WeightFiles& files_;
  bool is_tied_;
  std::set<std::string> used_;
};

void check_shape(const StackedTensor& found, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> stored = found.shape();
  require(stored == shape, [&] {
    return "tensor '" + found.parts.front().name + "'" +
           (found.parts.size() > 1 ? ", with the tensors stacked on it," : "") + " has the shape [" + joined(stored) +
           "], expected [" + joined(shape) + "] by config.json";
  });
}

}  // namespace

WeightFiles open_weight_files(const fs::path& folder) {
  WeightFiles files;
  if (fs::exists(folder / kWeights)) {
    add_file(folder / kWeights, files);
    return files;
  }
  require(fs::exists(folder / kIndex), [&] {
    return folder.string() + (fs::exists(folder / "pytorch_model.bin")
                                  ? ": holds only pytorch_model.bin, but adjoin reads only safetensors; "
                                    "in Python, AutoModelForSequenceClassification or AutoModelForCausalLM opens the "
                                    "folder, and save_pretrained then writes them"
                                  : std::string(": there is neither ") + kWeights + " nor " + kIndex);
  });
  const auto places = read_index(folder / kIndex);
  std::set<std::string> names;
  for (const auto& [tensor, file] : places) names.insert(file);
  for (const std::string& name : names) {
    require(fs::exists(folder / name),
            [&] { return (folder / name).string() + ": there is no such file, though " + kIndex + " names it"; });
    add_file(folder / name, files);
  }
  for (const auto& [tensor, name] : places) {
    const auto found = files.find(tensor);
    require(found != files.end() && found->second->path() == folder / name, [&] {
      return (folder / name).string() + ": holds no tensor '" + tensor + "', which " + kIndex + " looks for there";
    });
  }
  return files;
}

void check_sizes(const Family& family, const WeightFiles& files, const Configuration& c) {
  Finder finder(family, files, c.tied_scores);
  const auto check = [&](const std::string& ours, const std::vector<int64_t>& shape) {
    const StackedTensor found = finder.find(ours);
    require(!found.parts.empty(), [&] {
      return "describes " + counted(c.layers, "layer") + ", and the weights have no tensor '" +
             finder.missing_name(ours) + "'";
    });
    check_shape(found, shape);
  };
  check("embedding.weight", {c.words, c.hidden});
  for (int64_t block = 0; block < c.layers; ++block)
    check("block" + std::to_string(block) + ".norm1.weight", {c.hidden});
}

FamilyWeights find_weights(const Family& family, const WeightFiles& files,
                           const std::map<std::string, std::vector<int64_t>>& shapes) {
  FamilyWeights weights;
  Finder finder(family, files, family.model == ModelKind::decoder && !shapes.contains("scores.weight"));
  for (const auto& [ours, shape] : shapes) {
    const StackedTensor found = finder.find(ours);
    if (found.parts.empty() && ours.starts_with("classifier.")) {
      weights.lacking.push_back(ours);
      continue;
    }
    require(!found.parts.empty(), [&] { return "there is no tensor '" + finder.missing_name(ours) + "'"; });
    check_shape(found, shape);
    for (const StackedTensor::Part& part : found.parts)
      require(at::isFloatingType(part.dtype()), [&] {
        return "tensor '" + part.name + "' is of " + c10::toString(part.dtype()) + ", expected floating-point numbers";
      });
    weights.tensors.emplace(ours, found);
  }
  finder.pass_over_tied_scores();
  weights.left_out = finder.left_out();
  return weights;
}

}  // namespace adjoin::train
