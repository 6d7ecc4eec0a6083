#pragma once

#include <string_view>

#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/contract/backend.hpp"

namespace adjoin::algorithm {

/// Stands for the algorithm that choose() selects.
inline constexpr std::string_view kAuto = "auto";
/// Reductions in which every element is reduce_all_into of all ranks' elements in rank order, so that each backend gives the
/// same bits. It is not in the catalogue, where no algorithm does so for every reduction.
inline constexpr std::string_view kRankOrder = "rank_order";

/// Runs `program` as this rank's part of a collective, sending by Backend::exchange with kCollectiveTag. The two operands of a
/// reduction are combined in the order of their ranks; 16-bit floats are rounded after each step that reduces.
void run(const Program& program, Backend& backend, const Call& call);

/// Sets the call's algorithm to the one that choose() selects for its collective, and the chunk where it has none.
void choose_for(Call& call);

/// Carries out a collective on `backend` by messages alone, with exchange. call.algorithm is a name in the catalogue, or "" for
/// the algorithm that choose() selects; kRankOrder calls other collectives of the backend instead. Every rank of the group
/// calls it alike. In an all_to_all a rank knows its own counts only: Bruck's algorithm first gathers the counts of all ranks,
/// P numbers each, by Bruck's all-gather.
/// Throws: CommunicationError where in Bruck's all_to_all a rank sends another count than this one expects
void perform(const Call& call, Backend& backend);

}  // namespace adjoin::algorithm
