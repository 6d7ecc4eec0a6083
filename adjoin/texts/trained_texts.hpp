#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "adjoin/data/samples.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The file in a run's folder that says which texts the run has learned from: a JSON list, of more than one element if the run was
/// continued with other texts.
inline constexpr const char* kTextsFile = "texts.json";

/// The texts of the training part of a run, as its folder keeps them.
struct LearnedTexts {
  std::string content;  // as content_of says
  bool splits = false;  // the test part was held out of the same source

  bool operator==(const LearnedTexts&) const = default;
};

/// The files of a part of some texts, in the order in which they are read; none of the embedded corpus, and of what is not there.
std::vector<std::filesystem::path> files_of_texts(const std::string& data, data::Part part, bool is_decoder);

/// What distinguishes a part of some texts from other texts, whatever the files are called and wherever they lie: a hash of their
/// sizes and bytes. "sample" for the embedded corpus, "" where there are no files.
/// Cost: reads at most 16 MiB; of more it reads blocks in equal distances
std::string content_of(const std::string& data, data::Part part, bool is_decoder);

/// Whether training takes a test part from within this source, because it has none.
bool is_split(const std::string& data, bool is_decoder);

/// What a run with these --data and --test learns from.
LearnedTexts learned_texts(const std::string& data, const std::string& test, bool is_decoder);

/// What kTextsFile says of a run with this configuration. Warns if the run that it continues has learned from other texts.
std::string texts_file_of(const Configuration& configuration);

/// The elements of such a file; none if it is missing, as in runs of earlier versions.
std::vector<LearnedTexts> read_texts_file(const std::string& content);

}  // namespace adjoin::train
