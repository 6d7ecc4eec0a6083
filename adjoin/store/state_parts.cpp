#include "adjoin/store/state_parts.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "adjoin/base/checksum.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/store/piece_runs.hpp"
#include "adjoin/store/state_sums.hpp"

namespace adjoin::train {
namespace {

constexpr int64_t kWrittenAtOnce = 16 << 20;  // bytes between two checks whether to stop

const char* bytes_from(const at::Tensor& flat, int64_t element) {
  return static_cast<const char*>(flat.const_data_ptr()) + element * static_cast<int64_t>(flat.element_size());
}

}  // namespace

StateParts::StateParts(const std::vector<nn::Parameter>& pieces, const Communicator& workers, bool copies) {
  Sums sums;
  for (nn::Parameter piece : pieces) {
    piece.tensor = plain("save_state", piece.tensor.detach());
    if (piece.tensor.is_complex() && piece.tensor.scalar_type() != at::kComplexFloat)
      piece = in_pairs(std::move(piece));
    entries_.push_back({piece.name, piece.tensor.scalar_type(), piece.layout.shape()});
    uint64_t& sum = sums.emplace_back();
    const Range mine = share_of(piece);
    if (mine.size() == 0) continue;
    const at::Tensor there = piece.tensor.contiguous().view({-1}).narrow(0, mine.begin, mine.size());
    at::Tensor values = there.cpu();
    if (copies && values.is_alias_of(there)) values = values.clone();
    visit_runs(piece, mine, [&](const Run& run) {
      sum += checksum(bytes_from(values, run.local - mine.begin), run.count, values.element_size(), run.global);
    });
    parts_.push_back({piece, mine, std::move(values)});
    parts_.back().piece.tensor.reset();
  }
  sums = added_up(sums, workers);
  std::map<std::string, uint64_t> by_name;
  for (size_t i = 0; i < entries_.size(); ++i) by_name.emplace(entries_[i].name, sum_of(entries_[i], sums[i]));
  sums_ = metadata_of(by_name);
}

void StateParts::make_file(const std::filesystem::path& path, const Metadata& metadata) const {
  Metadata all = sums_;
  all.insert(metadata.begin(), metadata.end());
  make_safetensors(path, entries_, all);
}

void StateParts::write(const std::filesystem::path& path, const std::atomic<bool>& stops) const {
  SafetensorsFilling file(path);
  for (const Part& part : parts_) {
    const int64_t at_once = kWrittenAtOnce / static_cast<int64_t>(part.values.element_size());
    visit_runs(part.piece, part.range, [&](const Run& run) {
      for (int64_t done = 0; done < run.count && !stops; done += at_once)
        file.write(part.piece.name, run.global + done, bytes_from(part.values, run.local - part.range.begin + done),
                   std::min(at_once, run.count - done));
    });
  }
  if (!stops) file.sync();
}

std::string hash_of_state(const std::map<std::string, std::vector<nn::Parameter>>& files, const Communicator& workers) {
  std::map<std::string, Metadata> sums;
  for (const auto& [file, pieces] : files) sums.emplace(file, StateParts(pieces, workers, /*copies=*/false).sums());
  return hexadecimal(hash_of_sums(sums));
}

}  // namespace adjoin::train
