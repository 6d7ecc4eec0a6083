#pragma once

#include <string_view>

#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/backend.hpp"

namespace adjoin::algorithm {

/// For the one that choose() takes.
inline constexpr std::string_view kAuto = "auto";
/// Reductions whose every element is reduce_all_into of all ranks' elements in rank order, so that each backend gives the
/// same bits; not of the catalogue, none of whose algorithms does so for every reduction.
inline constexpr std::string_view kRankOrder = "rank_order";

/// Runs `program` as this rank's part of a collective, sending by Backend::exchange with kCollectiveTag; an average is
/// left a sum. The two operands of a reduction are taken in the order of their ranks; 16-bit floats are rounded after each
/// step that reduces.
void run(const Program& program, Backend& backend, const Call& call);

/// Names the algorithm that choose() takes for a collective, and the chunk where there is none.
void choose_for(Call& call);

/// Carries a collective out on `backend`, with messages by exchange alone, by call.algorithm: a name of the catalogue or,
/// where it is "", the one that choose() takes; kRankOrder calls other collectives of the backend. Every rank of the group
/// calls it alike. Of an all_to_all a rank knows its own counts only: Bruck first gathers those of all, by Bruck's
/// all-gather, P numbers of each rank.
/// Throws: CommunicationError where in Bruck's a rank sends other than this one expects
void perform(const Call& call, Backend& backend);

}  // namespace adjoin::algorithm
