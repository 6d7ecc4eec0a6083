#pragma once

#include <span>

#include "adjoin/comm/checked_call.hpp"
#include "adjoin/comm/reduction.hpp"

/// What each operation asks of its arguments; blocking and asynchronous calls ask the same. All throw InvalidArgument.
namespace adjoin::arguments {

using Counts = std::span<const int64_t>;

void check_send(const CheckedCall& call, ConstBuffer in, int to, int tag);
void check_recv(const CheckedCall& call, Buffer out, int from, int tag);
void check_exchange(const CheckedCall& call, std::span<const Message> messages);
void check_broadcast(const CheckedCall& call, Buffer buffer, int root);
void check_reduce(const CheckedCall& call, ConstBuffer in, Buffer out, Reduction reduction, int root);
void check_all_reduce(const CheckedCall& call, Buffer buffer, Reduction reduction);
void check_gather(const CheckedCall& call, ConstBuffer in, Buffer out, Counts counts, int root);
void check_scatter(const CheckedCall& call, ConstBuffer in, Buffer out, Counts counts, int root);
void check_all_gather(const CheckedCall& call, ConstBuffer in, Buffer out, Counts counts);
void check_reduce_scatter(const CheckedCall& call, ConstBuffer in, Buffer out, Counts counts, Reduction reduction);
void check_all_to_all(const CheckedCall& call, ConstBuffer in, Counts send_counts, Buffer out, Counts receive_counts);

}  // namespace adjoin::arguments
