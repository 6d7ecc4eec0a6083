#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/call_site.hpp"

namespace adjoin {

/// Sends x to a rank of the group, which calls recv.
///
/// Shape:   any -> [0]; backward starts from that zero-volume result
/// Adjoint: recv: x's gradient comes from that rank
/// Cost:    one message of x
at::Tensor send(const at::Tensor& x, int to, const Communicator& group,
                CallSite::Where where = CallSite::Where::current());

/// Receives the tensor that a rank of the group sends with `send`.
///
/// `nothing` is a zero-volume tensor of the element type to receive. It must require a gradient if the result shall require
/// one, as the sender's x does.
/// Shape:   [0] -> `shape`
/// Adjoint: send: the result's gradient goes to that rank
/// Cost:    one message
at::Tensor recv(const at::Tensor& nothing, const std::vector<int64_t>& shape, int from, const Communicator& group,
                CallSite::Where where = CallSite::Where::current());

/// Sends x to the rank `by` further around the group and receives that of the rank `by` before: on rank r, the x of r - by.
///
/// Shape:   any -> `shape`, the shape of the x of rank - by; by default that of x itself
/// Adjoint: rotate by -by
/// Cost:    one message of x each way
at::Tensor rotate(const at::Tensor& x, const Communicator& group, int by,
                  const std::optional<std::vector<int64_t>>& shape = {},
                  CallSite::Where where = CallSite::Where::current());

/// Sends blocks of rows to all ranks: rank r gets the r-th of x's blocks.
///
/// Shape:   [sum of send_rows, *] -> [sum of receive_rows, *]; rank r's block of the result has receive_rows[r] rows
/// Kinds:   split -> split in another way
/// Adjoint: itself with the counts swapped
/// Cost:    x, except this rank's own rows
/// Throws:  InvalidArgument where the counts do not match x's rows
at::Tensor all_to_all(const at::Tensor& x, const std::vector<int64_t>& send_rows,
                      const std::vector<int64_t>& receive_rows, const Communicator& group,
                      CallSite::Where where = CallSite::Where::current());

/// How many rows each rank will send to this one, where only the data says how many each sends: the receive_rows of all_to_all.
/// Cost: one number to each rank
std::vector<int64_t> exchange_counts(const std::vector<int64_t>& send_rows, const Communicator& group);

/// The same where rank r gets numbers[r] of the counts, one for each thing that it has: returns what each rank sends to this
/// one, rank by rank.
/// Throws: InvalidArgument where there is not one number per rank, or where the numbers do not add up to that of the counts
std::vector<int64_t> exchange_counts(const std::vector<int64_t>& send_rows, const std::vector<int64_t>& numbers,
                                     const Communicator& group);

}  // namespace adjoin
