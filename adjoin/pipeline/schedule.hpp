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

/// The letters of the kinds in files and pictures.
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

/// Which rank has which stages, and which actions it runs in which order.
///
/// An action runs when the one before it on its rank is done and its inputs are there: forward needs the forward of the
/// previous stage; backward and input need the forward of their own stage, and the backward or input of the next stage; weight
/// needs the input of its own stage. All are those of the same micro-batch.
struct Schedule {
  int stages = 0, micro_batches = 0;
  std::vector<int> rank_of;                  // for each stage
  std::vector<std::vector<Action>> actions;  // for each rank, in its order

  int ranks() const { return static_cast<int>(actions.size()); }
  bool operator==(const Schedule&) const = default;
};

/// The largest number of actions in a schedule; each takes 12 bytes, and twice as many while it is simulated.
inline constexpr int64_t kMostActions = int64_t{1} << 24;

/// "gpipe", "1f1b", "interleaved" and "zb-h1".
std::vector<std::string_view> schedule_names();

/// Whether ranks may have several stages in the schedule of this name.
bool has_chunks(std::string_view name);

/// Whether the name of a schedule is that of a file, for read_schedule.
inline bool names_a_file(std::string_view schedule) {
  return schedule.ends_with(".csv");
}

/// A schedule by its name, for any numbers from 1 on, including fewer micro-batches than ranks.
///
/// `chunks` is the number of stages of each rank: stage s is on rank s modulo `ranks`. In gpipe, 1f1b and zb-h1, which have one
/// stage per rank, a stage runs its backward actions, and its weight actions, in the order of the micro-batches, so that these
/// three schedules add gradients in the same order.
///
/// Cost:   linear in the number of actions
/// Throws: InvalidArgument for an unknown name or an invalid number, for more than one chunk where the schedule is not
///         interleaved, and where there would be more than kMostActions actions
/// Source: gpipe arXiv 1811.06965, 1f1b arXiv 2104.04473 section 2.2, interleaved the same, in the order of Megatron-LM,
///         zb-h1 arXiv 2401.10241 section 2
Schedule make_schedule(std::string_view name, int ranks, int micro_batches, int chunks = 1);

/// Only forward passes of `micro_batches` micro-batches, on the stages and ranks of another schedule: as many micro-batches as
/// there are ranks go through a rank's first stage, then through its next one, so that all ranks are busy.
Schedule forward_only(const Schedule& stages, int micro_batches);

/// Checks that every stage processes every micro-batch once, forward and backward (or input and weight), on its own rank, that
/// every rank has a stage, and that no ranks wait for each other in a circle.
///
/// Cost:   linear in the number of actions
/// Throws: InvalidArgument, in one line that names the rank (from 0) and the column (from 1) of the error
void check(const Schedule& schedule);

/// The same for actions that are in the given columns of a table: one number, from 1, for each action of each rank.
void check(const Schedule& schedule, const std::vector<std::vector<int>>& columns);

/// The schedule in a table: one line per rank, one cell per action, such as "0F3": stage, F, B, I or W, micro-batch. An empty
/// cell is idle and has no meaning. "(0F3;1B2)OVERLAP_F_B" is two actions, one after the other. This is the format that
/// PyTorch's torch.distributed.pipelining writes as "compute_only".
///
/// Throws: InvalidArgument, in one line, for a cell that is not an action, for a schedule that `check` refuses, for more than
///         kMostActions actions, and where the numbers of ranks or micro-batches are not the given ones
Schedule read_schedule(std::string_view csv, std::optional<int> ranks = {}, std::optional<int> micro_batches = {});

/// The table that `read_schedule` reads. A column is a moment: each action is as far left as possible where each action takes
/// one column and transfers take none.
///
/// Throws: InvalidArgument where the schedule is invalid (as `check`) or the table would have more than kMostCells cells
std::string to_csv(const Schedule& schedule);
inline constexpr int64_t kMostCells = int64_t{1} << 26;

/// "0F3"
std::string text_of(const Action& action);

}  // namespace adjoin::pipeline
