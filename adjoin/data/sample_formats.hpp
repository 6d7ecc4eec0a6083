#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/csv.hpp"
#include "adjoin/data/samples.hpp"

namespace adjoin::data {

// One reader for each way to keep samples; open_samples chooses.

/// A file of separated fields, whose first record names the columns.
std::unique_ptr<SampleReader> open_separated(const std::string& path, Separator separator, const Columns& columns);

/// One JSON object a line. Labels may be strings, numbers or booleans. As JSON is UTF-8, bytes that are not are dropped
/// in any case.
std::unique_ptr<SampleReader> open_json_lines(const std::string& path, const Columns& columns);

/// Text files, each in a folder that names its class.
std::unique_ptr<SampleReader> open_text_files(std::vector<std::filesystem::path> files, bool text_alone = false);

/// A path without the ".gz" at its end.
std::string_view without_gz(std::string_view path);

/// Where text and label stand among the columns that a file has. Of text alone the label is the text.
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
