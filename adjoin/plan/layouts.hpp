#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "adjoin/task/configuration.hpp"

namespace adjoin::models {
struct Segment;
}

namespace adjoin::plan {

/// Up to this number of ranks all methods are tried, and all ranks and micro-batches are planned.
constexpr int64_t kFewRanks = 16;

/// The fields of a configuration that a plan decides: the sizes of the grid, and how it is used.
const std::vector<std::string>& fields_of_grid();
const std::vector<std::string>& fields_of_methods();

/// The layouts for a number of ranks, before the model is considered.
struct Candidates {
  std::vector<train::Configuration> layouts;
  int64_t without_samples = 0;         ///< grids that were excluded because some ranks would get no sample of a batch
  std::vector<std::string> choices{};  ///< a line for each option of which only a few values are tried
};

/// All grids of `ranks` ranks with all ways to use them; `fixed` fields keep the configuration's values. Options that change
/// nothing in a grid are not varied: stages of ZeRO where no ranks share weights, `--recompute attention` where no scores are
/// kept. Only pipelines get several micro-batches. Of the numbers of micro-batches and of chunks only a few are tried, and
/// above kFewRanks only a few values of everything else; `choices` says which. `segments`: the model's number of segments,
/// which is the most stages there can be. Only where each rank is on a host of its own are halves tried.
Candidates candidates(const train::Configuration& base, int64_t ranks, const std::set<std::string>& fixed,
                      int64_t segments, int64_t ranks_a_host = std::numeric_limits<int64_t>::max());

/// Whether `train` accepts a layout for a model; if not, `why` gets the error that train would report.
bool is_accepted(const train::Configuration& layout, const std::vector<models::Segment>& segments, std::string& why);

/// The options of `train` for a layout: "--dp 2 --zero 3".
std::string options_of(const train::Configuration& layout);

}  // namespace adjoin::plan
