#include "adjoin/partition/token_rows.hpp"

#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin {
namespace {

/// The runs of samples that are cut into `pieces` balanced pieces; worker w holds the pieces with numbers `held(w)`.
template <class Held>
std::vector<std::vector<Run>> runs_of_pieces(const std::vector<int64_t>& lengths, int workers, int pieces,
                                             const Held& held) {
  require(workers >= 1, [&] { return "TokenRows: expected at least 1 worker, got " + std::to_string(workers); });
  std::vector<std::vector<Run>> runs(static_cast<size_t>(workers));
  for (size_t sample = 0; sample < lengths.size(); ++sample) {
    const Split cut = Split::balanced(lengths[sample], pieces, 0);
    for (int worker = 0; worker < workers; ++worker)
      for (const int piece : held(worker))
        for (const Range& tokens : cut.ranges(piece))
          if (tokens.size() > 0) runs[static_cast<size_t>(worker)].push_back({static_cast<int64_t>(sample), tokens});
  }
  return runs;
}

}  // namespace

TokenRows TokenRows::balanced(const std::vector<int64_t>& lengths, int workers) {
  return {runs_of_pieces(lengths, workers, workers, [](int worker) { return std::vector<int>{worker}; }), lengths};
}

TokenRows TokenRows::zigzag(const std::vector<int64_t>& lengths, int workers) {
  return {runs_of_pieces(lengths, workers, 2 * workers,
                         [=](int worker) {
                           return std::vector<int>{worker, 2 * workers - 1 - worker};
                         }),
          lengths};
}

TokenBlocks TokenBlocks::of(int64_t count, int workers, bool causal) {
  TokenBlocks blocks{.count = count, .held = {}};
  for (int worker = 0; worker < workers; ++worker) {
    std::vector<int64_t>& held = blocks.held.emplace_back();
    const auto hold = [&](int piece) {
      const Range some = balanced_range(count, causal ? 2 * workers : workers, piece);
      for (int64_t block = some.begin; block < some.end; ++block) held.push_back(block);
    };
    hold(worker);
    if (causal) hold(2 * workers - 1 - worker);
  }
  return blocks;
}

Range TokenBlocks::tokens(int64_t block, int64_t length) const {
  return balanced_range(length, static_cast<int>(count), static_cast<int>(block));
}

TokenRows TokenRows::in_blocks(const std::vector<int64_t>& lengths, const TokenBlocks& blocks) {
  std::vector<std::vector<Run>> runs(blocks.held.size());
  for (size_t worker = 0; worker < runs.size(); ++worker)
    for (const int64_t block : blocks.held[worker])
      for (int64_t sample = 0; sample < std::ssize(lengths); ++sample)
        runs[worker].push_back({sample, blocks.tokens(block, lengths[static_cast<size_t>(sample)])});
  return of_runs(std::move(runs), lengths);
}

TokenRows TokenRows::of_runs(std::vector<std::vector<Run>> runs, std::vector<int64_t> lengths) {
  require(!runs.empty(), "TokenRows: expected at least 1 worker, got 0");
  const auto samples = static_cast<int64_t>(lengths.size());
  for (std::vector<Run>& held : runs) {
    std::erase_if(held, [](const Run& run) { return run.tokens.size() == 0; });
    for (const Run& run : held)
      require(run.sample >= 0 && run.sample < samples && run.tokens.begin >= 0 && run.tokens.size() > 0 &&
                  run.tokens.end <= lengths[static_cast<size_t>(run.sample)],
              [&] {
                return "TokenRows: expected tokens within samples of lengths " + shape_text(lengths) + ", got " +
                       run.tokens.to_string() + " of sample " + std::to_string(run.sample);
              });
  }
  TokenRows rows(std::move(runs), std::move(lengths));
  rows.split();  // throws unless the runs contain every token once
  return rows;
}

TokenRows::TokenRows(std::vector<std::vector<Run>> runs, std::vector<int64_t> lengths) {
  const auto table = std::make_shared<Table>();
  table->offsets = {0};
  for (const int64_t length : lengths) {
    require(length >= 0, [&] { return "TokenRows: expected lengths of at least 0, got " + shape_text(lengths); });
    table->offsets.push_back(table->offsets.back() + length);
  }
  table->runs = std::move(runs);
  table->lengths = std::move(lengths);
  table_ = table;
}

TokenRows TokenRows::on_one_worker() const {
  return once("on one worker", [&] { return balanced(lengths(), 1); });
}

bool TokenRows::operator==(const TokenRows& other) const {
  return table_ == other.table_ || (table_->lengths == other.table_->lengths && table_->runs == other.table_->runs);
}

int64_t TokenRows::size(int worker) const {
  int64_t size = 0;
  for (const Run& run : runs(worker)) size += run.tokens.size();
  return size;
}

std::vector<TokenPlace> TokenRows::places(int worker) const {
  std::vector<TokenPlace> places;
  for (const Run& run : runs(worker))
    for (int64_t token = run.tokens.begin; token < run.tokens.end; ++token) places.push_back({run.sample, token});
  return places;
}

Split TokenRows::split() const {
  std::vector<std::vector<Range>> parts;
  for (const std::vector<Run>& held : table_->runs) {
    parts.emplace_back();
    for (const Run& run : held)
      parts.back().push_back({offset(run.sample) + run.tokens.begin, offset(run.sample) + run.tokens.end});
  }
  return Split::of_ranges(std::move(parts), size(), 0);
}

std::string TokenRows::to_string() const {
  std::string text = "samples of " + shape_text(lengths()) + " as";
  for (int worker = 0; worker < workers(); ++worker) {
    if (worker > 0) text += " |";
    for (const Run& run : runs(worker))
      text.append(" ").append(std::to_string(run.sample)).append(":").append(run.tokens.to_string());
  }
  return text;
}

}  // namespace adjoin
