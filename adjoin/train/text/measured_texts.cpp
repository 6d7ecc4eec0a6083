#include "adjoin/train/text/measured_texts.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/data/documents.hpp"
#include "adjoin/data/samples.hpp"
#include "adjoin/data/token_folder.hpp"
#include "adjoin/train/messages.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

/// The files of a part, by their real paths; none of the embedded corpus, of tokens, and of what is not there.
std::set<fs::path> files_of(const std::string& data, data::Part part, bool is_decoder) {
  if (data == "sample" || !fs::exists(data) || data::is_token_folder(data)) return {};
  std::set<fs::path> files;
  try {
    for (const fs::path& file : is_decoder ? data::document_files(data, part) : data::sample_files(data, part))
      files.insert(fs::weakly_canonical(file));
  } catch (const InvalidArgument&) {  // reading them will report it
  }
  return files;
}

bool are_same(const std::string& a, const std::string& b) {
  std::error_code missing;
  return a == b || fs::equivalent(a, b, missing);
}

/// Whether training takes a test part from within this source, because it has none.
bool is_split(const std::string& data, bool is_decoder) {
  if (!is_decoder) return data != "sample" && data::is_one_source(data);
  return !data::is_token_folder(data) && !data::tells_parts(data);
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

}  // namespace

MeasuredTexts measured_texts(const TextSource& given, const std::string& test, const Configuration& run,
                             const std::string& model) {
  const bool is_decoder = run.model == "decoder", names_none = given.data.empty() && test.empty();
  TextSource source = names_none ? own_texts(given, run, model) : given;
  if (!test.empty()) source.data = test;
  const bool same_labels = given.columns.label.empty() || given.columns.label == run.label_column;
  const bool is_runs = test.empty() && run.test.empty() && same_labels && are_same(source.data, run.data);
  source.splits = is_split(source.data, is_decoder) && (is_runs || (is_decoder && source.data == "sample"));
  if (source.splits) {
    const char* part = is_decoder ? "the last 20th of the documents in " : "every tenth text of each class in ";
    return {source, part + source.data + (is_runs ? ", which training held out" : "")};
  }
  const std::set<fs::path> measured = files_of(source.data, data::Part::test, is_decoder);
  const std::set<fs::path> learned = files_of(run.data, data::Part::train, is_decoder);
  if (std::ranges::any_of(measured, [&](const fs::path& file) { return learned.contains(file); }))
    warn(source.data + ": the model was trained on texts of it, so the result says little about new texts");
  return {source, (has_test_part(source.data, is_decoder) ? "the test texts in " : "all texts in ") + source.data};
}

}  // namespace adjoin::train
