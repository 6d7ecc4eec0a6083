#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::pipeline {

/// What a rank does to one micro-batch in one of its stages. `backward` is `input` (the gradient of the stage's input)
/// and `weight` (the gradients of its weights) at once. In files: F, B, I, W.
enum class Kind : uint8_t { forward, backward, input, weight };

/// By which files and pictures name each kind.
inline constexpr std::string_view kLetters = "FBIW";
inline char letter_of(Kind kind) {
  return kLetters[static_cast<size_t>(kind)];
}

struct Action {
  int stage = 0;
  Kind kind = Kind::forward;
  int micro_batch = 0;
  bool operator==(const Action&) const = default;
};

/// Which rank holds which stages, and what it does in which order.
///
/// An action runs when the one before it on its rank is done and its inputs are there: forward needs the forward of the
/// stage before; backward and input need the forward of their own stage, and the backward or input of the stage behind;
/// weight needs the input of its own stage. All of the same micro-batch.
struct Schedule {
  int stages = 0, micro_batches = 0;
  std::vector<int> rank_of;                  // of each stage
  std::vector<std::vector<Action>> actions;  // of each rank, in its order

  int ranks() const { return static_cast<int>(actions.size()); }
  bool operator==(const Schedule&) const = default;
};

/// A schedule has at most so many actions; each takes 12 bytes, and twice as many while it is simulated.
inline constexpr int64_t kMostActions = int64_t{1} << 24;

/// "gpipe", "1f1b", "interleaved" and "zb-h1".
std::vector<std::string_view> schedule_names();

/// Whether what names a schedule is a file, for read_schedule.
inline bool names_a_file(std::string_view schedule) {
  return schedule.ends_with(".csv");
}

/// A schedule by its name, for any numbers from 1 on, also where there are fewer micro-batches than ranks.
///
/// `chunks` is the number of stages of each rank: stage s is on rank s modulo `ranks`. In gpipe, 1f1b and zb-h1, which
/// have one stage a rank, a stage goes through its backward actions, and through its weight actions, in the order of the
/// micro-batches, so that these three add gradients in the same order.
///
/// Cost:   linear in the number of actions
/// Throws: InvalidArgument for a name or number that is none, for more than one chunk where the schedule is not
///         interleaved, and where there would be more than kMostActions actions
/// Source: gpipe arXiv 1811.06965, 1f1b arXiv 2104.04473 section 2.2, interleaved the same, in the order of Megatron-LM,
///         zb-h1 arXiv 2401.10241 section 2
Schedule make_schedule(std::string_view name, int ranks, int micro_batches, int chunks = 1);

/// Forward passes alone of so many micro-batches, on the stages and ranks of another schedule: as many micro-batches as there
/// are ranks go through a rank's first stage, then through its next one, so that all ranks are at work.
Schedule forward_only(const Schedule& stages, int micro_batches);

/// Checks that every stage goes once through every micro-batch, forward and backward (or input and weight), on its own
/// rank, that every rank has a stage, and that no ranks wait for each other in a circle.
///
/// Cost:   linear in the number of actions
/// Throws: InvalidArgument, in one line that names rank (from 0) and column (from 1) of what is wrong
void check(const Schedule& schedule);

/// The same for actions that stand in the given columns of a table: one number, from 1, for each action of each rank.
void check(const Schedule& schedule, const std::vector<std::vector<int>>& columns);

/// The schedule that a table says: a line a rank, a cell an action, as "0F3": stage, F, B, I or W, micro-batch. An empty
/// cell is idle and says nothing. "(0F3;1B2)OVERLAP_F_B" are two actions, one after the other. This is what PyTorch's
/// torch.distributed.pipelining writes as "compute_only".
///
/// Throws: InvalidArgument, in one line, for a cell that is no action, for a schedule that `check` refuses, for more than
///         kMostActions actions, and for other ranks or micro-batches than the given ones
Schedule read_schedule(std::string_view csv, std::optional<int> ranks = {}, std::optional<int> micro_batches = {});

/// The table that `read_schedule` reads. A column is a moment: an action stands as far left as it can where each takes
/// one column and transfers take none.
///
/// Throws: InvalidArgument where the schedule is none (as `check`) or the table would have more than kMostCells cells
std::string to_csv(const Schedule& schedule);
inline constexpr int64_t kMostCells = int64_t{1} << 26;

/// "0F3"
std::string text_of(const Action& action);

}  // namespace adjoin::pipeline
