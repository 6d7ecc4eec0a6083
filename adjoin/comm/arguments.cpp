#include "adjoin/comm/arguments.hpp"

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::arguments {

using algorithm::total_of;

namespace {

int64_t own(const CheckedCall& call, Counts counts) {
  return counts[static_cast<size_t>(call.rank())];
}

}  // namespace

void check_send(const CheckedCall& call, ConstBuffer in, int to, int tag) {
  call.check_rank("peer", to);
  call.check_tag(tag);
  call.check_buffer("in", in);
}

void check_recv(const CheckedCall& call, Buffer out, int from, int tag) {
  call.check_rank("peer", from);
  call.check_tag(tag);
  call.check_buffer("out", out);
}

void check_exchange(const CheckedCall& call, std::span<const Message> messages) {
  for (const Message& message : messages) {
    call.check_rank("peer", message.peer);
    call.check_tag(message.tag);
    call.check_buffer("buffer", message.buffer);
    call.check_box(message);
  }
}

void check_broadcast(const CheckedCall& call, Buffer buffer, int root) {
  call.check_rank("root", root);
  call.check_buffer("buffer", buffer);
}

void check_reduce(const CheckedCall& call, ConstBuffer in, Buffer out, Reduction reduction, int root) {
  call.check_rank("root", root);
  call.check_buffer("in", in);
  call.check_reduction(reduction, in.type);
  if (call.rank() != root) return;
  call.check_elements("out", out, in.count);
  call.check_same_type(in, out);
  if (in.data != out.data) call.check_apart(in, out);
}

void check_all_reduce(const CheckedCall& call, Buffer buffer, Reduction reduction) {
  call.check_buffer("buffer", buffer);
  call.check_reduction(reduction, buffer.type);
}

void check_gather(const CheckedCall& call, ConstBuffer in, Buffer out, Counts counts, int root) {
  call.check_rank("root", root);
  call.check_counts("counts", counts);
  call.check_elements("in", in, own(call, counts));
  if (call.rank() != root) return;
  call.check_elements("out", out, total_of(counts));
  call.check_same_type(in, out);
  call.check_own_or_apart(in, out, counts);
}

void check_scatter(const CheckedCall& call, ConstBuffer in, Buffer out, Counts counts, int root) {
  call.check_rank("root", root);
  call.check_counts("counts", counts);
  call.check_elements("out", out, own(call, counts));
  if (call.rank() != root) return;
  call.check_elements("in", in, total_of(counts));
  call.check_same_type(in, out);
  call.check_own_or_apart(out, in, counts);
}

void check_all_gather(const CheckedCall& call, ConstBuffer in, Buffer out, Counts counts) {
  call.check_counts("counts", counts);
  call.check_elements("in", in, own(call, counts));
  call.check_elements("out", out, total_of(counts));
  call.check_same_type(in, out);
  call.check_own_or_apart(in, out, counts);
}

void check_reduce_scatter(const CheckedCall& call, ConstBuffer in, Buffer out, Counts counts, Reduction reduction) {
  call.check_counts("counts", counts);
  call.check_elements("in", in, total_of(counts));
  call.check_elements("out", out, own(call, counts));
  call.check_same_type(in, out);
  call.check_own_or_apart(out, in, counts);
  call.check_reduction(reduction, in.type);
}

void check_all_to_all(const CheckedCall& call, ConstBuffer in, Counts send_counts, Buffer out, Counts receive_counts) {
  call.check_counts("send_counts", send_counts);
  call.check_counts("receive_counts", receive_counts);
  call.check_elements("in", in, total_of(send_counts));
  call.check_elements("out", out, total_of(receive_counts));
  call.check_same_type(in, out);
  call.check_apart(in, out);
}

}  // namespace adjoin::arguments
