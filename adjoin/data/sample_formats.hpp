#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/data/csv.hpp"
#include "adjoin/data/samples.hpp"

namespace adjoin::data {

// One reader for each way to keep samples; open_samples chooses.

/// A file of separated fields, whose first record names the columns.
std::unique_ptr<SampleReader> open_separated(const std::string& path, Separator separator, const Columns& columns);

/// One JSON object a line. Labels may be strings, numbers or booleans.
std::unique_ptr<SampleReader> open_json_lines(const std::string& path, const Columns& columns);

/// Text files, each in a folder that names its class.
std::unique_ptr<SampleReader> open_text_files(std::vector<std::filesystem::path> files);

/// Where text and label stand among the columns that a file has.
struct FoundColumns {
  size_t text, label;
};

/// Throws: InvalidArgument that begins with `where` and names the columns that are there
FoundColumns find_columns(const std::vector<std::string>& there, const Columns& wanted, const std::string& where);

/// A text of the user's for an error: in quotes, in one line, and not long.
std::string shortened(std::string text);

/// The first `most` of some names, each shortened, with commas between.
std::string listed(const std::vector<std::string>& names, size_t most);

}  // namespace adjoin::data
