#include "adjoin/texts/measured_texts.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/data/samples.hpp"
#include "adjoin/data/token_folder.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/texts/trained_texts.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

std::set<fs::path> real_paths(const std::vector<fs::path>& files) {
  std::set<fs::path> paths;
  for (const fs::path& file : files) paths.insert(fs::weakly_canonical(file));
  return paths;
}

bool are_same(const std::string& a, const std::string& b) {
  std::error_code missing;
  return a == b || fs::equivalent(a, b, missing);
}

/// Whether a source has a test part of its own.
bool has_test_part(const std::string& data, bool is_decoder) {
  return !is_split(data, is_decoder) && (data == "sample" || data::is_token_folder(data) || fs::is_directory(data));
}

TextSource own_texts(TextSource source, const Configuration& run, const std::string& model) {
  source.data = run.test.empty() ? run.data : run.test;
  require(!source.data.empty(), [&] { return "--data is needed: " + model + " does not name texts of its own"; });
  require(source.data == "sample" || fs::exists(source.data),
          [&] { return "--data is needed: the texts of " + model + ", " + source.data + ", are not there"; });
  if (source.samples == 0) source.samples = run.samples;
  return source;
}

/// Warns if the model has learned from the texts that are measured, or from others of their files.
void warn_of_learned(const TextSource& source, const Configuration& run, const std::vector<LearnedTexts>& learned) {
  const bool is_decoder = run.is_decoder();
  const auto measured = real_paths(files_of_texts(source.data, data::Part::test, is_decoder));
  const auto read = real_paths(files_of_texts(run.data, data::Part::train, is_decoder));
  const std::string content = content_of(source.data, data::Part::test, is_decoder);
  if (std::ranges::any_of(measured, [&](const fs::path& file) { return read.contains(file); }) ||
      (!measured.empty() && std::ranges::find(learned, content, &LearnedTexts::content) != learned.end()))
    warn(source.data + ": the model was trained on texts of it, so the result says little about new texts");
}

}  // namespace

MeasuredTexts measured_texts(const TextSource& given, const std::string& test, const TrainedModel& model) {
  const Configuration& run = model.configuration;
  const bool is_decoder = run.is_decoder(), names_none = given.data.empty() && test.empty();
  TextSource source = names_none ? own_texts(given, run, model.folder) : given;
  if (!test.empty()) source.data = test;
  const std::vector<LearnedTexts> learned = read_texts_file(model.texts_file);
  const bool is_at_place = test.empty() && are_same(source.data, run.data);
  const bool is_known =
      test.empty() && learned.size() == 1 && learned[0] == learned_texts(source.data, run.test, is_decoder);
  const bool has_changed = is_at_place && !is_known && !learned.empty();
  const bool same_labels = given.columns.label.empty() || given.columns.label == run.label_column;
  const bool is_runs = run.test.empty() && same_labels && (is_at_place || is_known);
  source.splits = is_split(source.data, is_decoder) && (is_runs || (is_decoder && source.data == "sample"));
  if (has_changed)
    warn(
        source.data +
        (learned.size() > 1 ? ": the run has also learned from other texts" : ": has changed since it was trained on") +
        ", so which of these texts the model has learned is not known");
  else if (!source.splits)
    warn_of_learned(source, run, learned);
  if (!source.splits)
    return {source, (has_test_part(source.data, is_decoder) ? "the test texts in " : "all texts in ") + source.data};
  const char* held = !is_runs || has_changed ? ""
                     : is_known              ? ", which training held out"
                                             : ", which training held out unless they have changed since";
  return {source, (is_decoder ? "the last 20th of the documents in " : "every tenth text of each class in ") +
                      source.data + held};
}

}  // namespace adjoin::train
