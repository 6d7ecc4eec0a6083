#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/train/configuration.hpp"

namespace adjoin::plan {

/// Up to so many ranks all methods are tried, and all ranks and micro-batches planned as they are.
constexpr int64_t kFewRanks = 16;

/// The fields of a configuration that a plan decides: the sizes of the grid, and how it is used.
const std::vector<std::string>& fields_of_grid();
const std::vector<std::string>& fields_of_methods();

/// Layouts of a number of ranks, before anybody asks the model.
struct Candidates {
  std::vector<train::Configuration> layouts;
  int64_t without_samples = 0;         ///< grids that were left out, since some ranks would get no sample of a batch
  std::vector<std::string> choices{};  ///< a line on each thing of which a few are tried, of many
};

/// All grids of so many ranks with all ways to use them, of which `fixed` fields keep the configuration's values. What changes
/// nothing there stands once: a stage of ZeRO where nobody shares weights, `--recompute attention` where no scores are kept.
/// Of numbers of micro-batches, which only pipelines are given, and of chunks a few are tried, and above kFewRanks of all else too;
/// `choices` says which. `segments`: of the model, at most as many stages.
Candidates candidates(const train::Configuration& base, int64_t ranks, const std::set<std::string>& fixed,
                      int64_t segments);

/// Whether `train` takes a layout of a model; else `why` says what train would.
bool is_taken(const train::Configuration& layout, const std::vector<models::Segment>& segments, std::string& why);

/// The options that ask `train` for a layout: "--dp 2 --zero 3".
std::string options_of(const train::Configuration& layout);

}  // namespace adjoin::plan
