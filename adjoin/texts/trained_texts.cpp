#include "adjoin/texts/trained_texts.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/data/documents.hpp"
#include "adjoin/data/token_folder.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/store/read_text.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlockBytes = 1 << 16, kMostBlocks = 256;  // bytes of a block, and how many are read

int64_t bytes_of_file(const fs::path& file) {
  std::error_code missing;
  const uintmax_t bytes = fs::is_regular_file(file, missing) ? fs::file_size(file, missing) : 0;
  return missing ? 0 : static_cast<int64_t>(bytes);
}

uint64_t hash_of_block(std::ifstream& file, int64_t at) {
  std::string block(static_cast<size_t>(kBlockBytes), '\0');
  file.clear();
  file.seekg(at);
  file.read(block.data(), kBlockBytes);
  return hash_of(std::string_view(block).substr(0, static_cast<size_t>(file.gcount())));
}

uint64_t hash_of_files(const std::vector<fs::path>& files) {
  std::vector<int64_t> sizes;
  int64_t all = 0;
  for (const fs::path& file : files) all += sizes.emplace_back(bytes_of_file(file));
  const bool is_whole = all <= kBlockBytes * kMostBlocks;
  const int64_t stride = is_whole ? kBlockBytes : all / kMostBlocks;
  uint64_t hash = hash_of(std::span<const int64_t>(sizes));
  int64_t begin = 0, next = 0;  // of a file, and of the next block, among the bytes of all files
  for (size_t i = 0; i < files.size(); ++i) {
    const int64_t end = begin + sizes[i];
    std::ifstream file;
    if (next < end) file.open(files[i], std::ios::binary);
    for (; next < end; next += stride) hash = mix(hash ^ hash_of_block(file, next - begin));
    if (is_whole) next = end;
    begin = end;
  }
  return hash;
}

}  // namespace

std::vector<fs::path> files_of_texts(const std::string& data, data::Part part, bool is_decoder) {
  if (data == "sample" || !fs::exists(data)) return {};
  if (data::is_token_folder(data)) return {data::file_of_tokens(data, part)};
  try {
    return is_decoder ? data::document_files(data, part) : data::sample_files(data, part);
  } catch (const InvalidArgument&) {  // reading them will report it
    return {};
  }
}

std::string content_of(const std::string& data, data::Part part, bool is_decoder) {
  if (data == "sample") return data;
  const std::vector<fs::path> files = files_of_texts(data, part, is_decoder);
  return files.empty() ? "" : hexadecimal(hash_of_files(files));
}

bool is_split(const std::string& data, bool is_decoder) {
  if (!is_decoder) return data != "sample" && data::is_one_source(data);
  return !data::is_token_folder(data) && !data::tells_parts(data);
}

LearnedTexts learned_texts(const std::string& data, const std::string& test, bool is_decoder) {
  return {content_of(data, data::Part::train, is_decoder), test.empty() && is_split(data, is_decoder)};
}

std::string texts_file_of(const Configuration& c) {
  std::vector<LearnedTexts> learned;
  if (!c.resume.empty())
    read_checkpoint({c.resume, c.step}, {}, [&](const SavedCheckpoint& checkpoint) {
      learned = read_texts_file(text_or_nothing(checkpoint.folder / kTextsFile));
    });
  const LearnedTexts now = learned_texts(c.data, c.test, c.is_decoder());
  if (!learned.empty() && learned.back() != now)
    warn("--data " + c.data + ": these are not the texts that the run in " + c.resume +
         " has learned from so far, so it may now learn from some that it held out");
  if (learned.empty() || learned.back() != now) learned.push_back(now);
  nlohmann::ordered_json json;
  for (const LearnedTexts& texts : learned) json.push_back({{"content", texts.content}, {"splits", texts.splits}});
  return json.dump() + "\n";
}

std::vector<LearnedTexts> read_texts_file(const std::string& content) {
  std::vector<LearnedTexts> learned;
  try {
    for (const auto& texts : nlohmann::json::parse(content))
      learned.push_back({texts.at("content").get<std::string>(), texts.at("splits").get<bool>()});
  } catch (const nlohmann::json::exception&) {  // it only says less, then
    learned.clear();
  }
  return learned;
}

}  // namespace adjoin::train
