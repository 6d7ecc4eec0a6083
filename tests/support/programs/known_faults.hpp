#pragma once

/// Cases that the library does not get right yet. Each can be drawn; a fault that is mended makes its line `true`, and then
/// the line may go.
namespace adjoin::testing::programs::gets_right {

/// Under MPI, threads of a rank that make groups at the same time, which hang inside MPI.
inline constexpr bool mpi_groups_made_at_once = false;
/// Under MPI, sums and products of uint8 that exceed 255: some saturate, some wrap around.
inline constexpr bool mpi_bytes_wrap = true;
/// An all_to_all by an algorithm of which a rank expects another count than its peer sends: Bruck's writes behind `out`.
inline constexpr bool counts_by_algorithm = true;
/// Under MPI, messages whose sender and receiver name different types: they pass.
inline constexpr bool mpi_message_types = true;
/// An all_to_all in place, or an all_gather whose input lies in another block of its output: wrong results.
inline constexpr bool overlaps_refused = true;
/// Under MPI, a subset to which a member never comes: only the deadline tells.
inline constexpr bool mpi_missing_members = true;
/// Under MPI, ranks that are accused of a deadlock within a second and are right: one that is stopped, one that has left
/// after its part of a gather, one that has freed the group of it.
inline constexpr bool mpi_stopped_ranks = true;
inline constexpr bool mpi_ranks_that_leave = true;
inline constexpr bool mpi_ranks_that_free = true;

}  // namespace adjoin::testing::programs::gets_right
