// The collectives of ProcessGroup: how those of c10d become adjoin's.

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "python/c10d/run.hpp"

namespace adjoin::c10d_backend {

using at::Tensor;
using c10d::OpType;
using Counts = std::vector<int64_t>;

void check_tensors(const Tensors& tensors) {
  for (const Tensor& tensor : tensors)
    TORCH_CHECK_VALUE(tensor.device().is_cpu() && tensor.layout() == at::kStrided,
                      "adjoin: expected dense tensors on the CPU, got ", tensor.layout(), " on ", tensor.device());
}

namespace {

void check_one(const char* what, size_t tensors) {
  TORCH_CHECK_VALUE(tensors == 1, "adjoin: ", what, " takes one tensor a rank, got ", tensors);
}

void check_list(const char* what, const Tensors& list, int size, at::ScalarType type) {
  TORCH_CHECK_VALUE(std::ssize(list) == size, "adjoin: ", what, " takes one tensor for each of ", size, " ranks, got ",
                    list.size());
  for (const Tensor& tensor : list)
    TORCH_CHECK_VALUE(tensor.scalar_type() == type, "adjoin: ", what, " takes tensors of one type, got ", type, " and ",
                      tensor.scalar_type());
}

/// The outputs of one tensor's all_gather, of which that of this rank takes the input.
void check_gathered(const Tensors& outs, const Tensor& in, int rank, int size) {
  check_list("all_gather", outs, size, in.scalar_type());
  const int64_t own = outs[static_cast<size_t>(rank)].numel();
  TORCH_CHECK_VALUE(own == in.numel(), "adjoin: all_gather: this rank gives ", in.numel(), " elements and expects ",
                    own, " of itself");
}

void check_total(const char* what, const Tensor& whole, const Tensor& part, int size) {
  TORCH_CHECK_VALUE(whole.scalar_type() == part.scalar_type(), "adjoin: ", what, " takes tensors of one type, got ",
                    whole.scalar_type(), " and ", part.scalar_type());
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * size, "adjoin: ", what, " takes ", size,
                    " times as many elements as ", part.numel(), ", got ", whole.numel());
}

void check_splits(Counts& splits, const Tensor& tensor, int size) {
  c10d::checkSplitSizes(splits, tensor, size);
  for (const int64_t split : splits)
    TORCH_CHECK_VALUE(split >= 0, "adjoin: all_to_all takes splits of at least 0, got ", split);
}

void check_root(int64_t root, int size) {
  TORCH_CHECK_VALUE(root >= 0 && root < size, "adjoin: the root is one of ", size, " ranks, got ", root);
}

Tensors joined(const Tensors& a, const Tensors& b) {
  Tensors all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

/// The root's list for a gather or a scatter of one tensor a rank; empty on the others.
Tensors list_of_root(const char* what, const std::vector<Tensors>& lists, const Tensors& ones, int64_t root, int rank,
                     int size) {
  check_one(what, ones.size());
  check_root(root, size);
  TORCH_CHECK_VALUE(lists.size() == (rank == root ? 1 : 0), "adjoin: ", what, " takes a list on the root alone");
  const Tensors list = rank == root ? lists[0] : Tensors();
  check_tensors(joined(ones, list));
  if (rank == root) check_list(what, list, size, ones[0].scalar_type());
  for (const Tensor& tensor : list)
    TORCH_CHECK_VALUE(tensor.numel() == ones[0].numel(), "adjoin: ", what, " takes a list of tensors of ",
                      ones[0].numel(), " elements, got one of ", tensor.numel());
  return list;
}

/// The tensors of a list one after another, as one buffer.
struct Flat {
  Tensor whole;
  Counts counts;

  /// Without their elements, unless `with_elements`.
  Flat(const Tensors& list, bool with_elements, bool flips = false) {
    int64_t total = 0;
    for (const Tensor& tensor : list) total += tensor.numel();
    const int64_t unit = unit_of(list[0].scalar_type()).per_element;
    for (const Tensor& tensor : list) counts.push_back(tensor.numel() * unit);
    whole = at::empty({total}, list[0].options());
    share(whole);
    if (with_elements) each(list, [](Tensor part, const Tensor& tensor) { part.copy_(tensor); });
    if (flips) whole.bitwise_xor_(std::numeric_limits<int8_t>::min());
  }
  void give_to(const Tensors& list) const {
    each(list, [](const Tensor& part, const Tensor& tensor) { tensor.copy_(part); });
  }

 private:
  template <class Action>
  void each(const Tensors& list, Action action) const {
    int64_t begin = 0;
    for (const Tensor& tensor : list) {
      action(whole.narrow(0, begin, tensor.numel()).view(tensor.sizes()), tensor);
      begin += tensor.numel();
    }
  }
};

void all_reduce(const Turn& turn, const Tensor& tensor, const c10d::ReduceOp& op) {
  const Operand operand = Operand::in(tensor, flips_sign(op, tensor.scalar_type()));
  Call call = turn.call(Collective::all_reduce, operand.buffer(), operand.buffer(), tensor.scalar_type());
  call.reduction = reduction_of(op, tensor.scalar_type());
  turn.backend.run_collective(call);
  operand.give_back();
}

void all_gather(const Turn& turn, const Tensor& out, const Tensor& in) {
  const Operand from = Operand::in(in), to = Operand::out(out);
  const Counts counts(static_cast<size_t>(turn.backend.size()), from.buffer().count);
  Call call = turn.call(Collective::all_gather, from.buffer(), to.buffer(), in.scalar_type());
  call.counts = counts;
  turn.backend.run_collective(call);
  to.give_back();
}

void all_gather(const Turn& turn, const Tensors& outs, const Tensor& in) {
  const Operand from = Operand::in(in);
  const Flat to(outs, /*with_elements=*/false);
  Call call = turn.call(Collective::all_gather, from.buffer(), buffer_of(to.whole), in.scalar_type());
  call.counts = to.counts;
  turn.backend.run_collective(call);
  to.give_to(outs);
}

void reduce_scatter(const Turn& turn, const Tensor& out, const Tensor& in, const c10d::ReduceOp& op) {
  const bool flips = flips_sign(op, in.scalar_type());
  const Operand from = Operand::in(in, flips), to = Operand::out(out, flips);
  const Counts counts(static_cast<size_t>(turn.backend.size()), to.buffer().count);
  Call call = turn.call(Collective::reduce_scatter, from.buffer(), to.buffer(), in.scalar_type());
  call.counts = counts;
  call.reduction = reduction_of(op, in.scalar_type());
  turn.backend.run_collective(call);
  to.give_back();
}

/// A gather or a scatter of `one` tensor a rank, between it and the root's list.
void move_list(const Turn& turn, Collective collective, const Tensor& one, const Tensors& list, int64_t root) {
  const bool gathers = collective == Collective::gather;
  const Operand own = gathers ? Operand::in(one) : Operand::out(one);
  std::optional<Flat> all;
  if (!list.empty()) all.emplace(list, /*with_elements=*/!gathers);
  const Buffer listed = all ? buffer_of(all->whole) : Buffer{nullptr, 0, own.buffer().type};
  Call call =
      turn.call(collective, gathers ? own.buffer() : listed, gathers ? listed : own.buffer(), one.scalar_type());
  const Counts counts(static_cast<size_t>(turn.backend.size()), own.buffer().count);
  call.counts = counts;
  call.root = static_cast<int>(root);
  turn.backend.run_collective(call);
  if (!gathers) return own.give_back();
  if (all) all->give_to(list);
}

/// Sums sparse tensors: each rank gathers the indices and the values of all.
void all_reduce_sparse(const Turn& turn, const Tensor& tensor) {
  const Tensor own = tensor.coalesce();
  const auto ranks = static_cast<size_t>(turn.backend.size());
  const Tensor number = at::scalar_tensor(own._nnz(), at::kLong);
  Tensor numbers = at::empty({static_cast<int64_t>(ranks)}, at::kLong);
  all_gather(turn, numbers, number);
  Tensors indices, values;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto there = numbers[static_cast<int64_t>(rank)].item<int64_t>();
    indices.push_back(at::empty({there, own.sparse_dim()}, at::kLong));
    std::vector<int64_t> sizes = own._values().sizes().vec();
    sizes[0] = there;
    values.push_back(at::empty(sizes, own._values().options()));
  }
  all_gather(turn, indices, own._indices().t());
  all_gather(turn, values, own._values());
  tensor.copy_(at::sparse_coo_tensor(at::cat(indices).t(), at::cat(values), own.sizes()).coalesce());
}

Counts counts_of(const Tensor& tensor, const Counts& splits, int size) {
  const Buffer buffer = buffer_of(tensor);
  if (splits.empty()) return Counts(static_cast<size_t>(size), buffer.count / size);
  const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 0, row = rows > 0 ? buffer.count / rows : 0;
  Counts counts;
  for (const int64_t split : splits) counts.push_back(split * row);
  return counts;
}

}  // namespace

WorkPtr ProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  check_one("broadcast", tensors.size());
  check_tensors(tensors);
  check_root(options.rootRank, getSize());
  return run(OpType::BROADCAST, "adjoin:broadcast", tensors, tensors, options,
             [tensor = tensors[0], root = options.rootRank](const Turn& turn) {
               const Operand operand = Operand::in(tensor);
               Call call = turn.call(Collective::broadcast, operand.buffer(), operand.buffer(), tensor.scalar_type());
               call.root = static_cast<int>(root);
               turn.backend.run_collective(call);
               if (turn.backend.rank() != root) operand.give_back();
             });
}

WorkPtr ProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  check_one("all_reduce", tensors.size());
  if (tensors[0].is_sparse()) {
    TORCH_CHECK_VALUE(options.reduceOp.op_ == c10d::ReduceOp::SUM, "adjoin: sparse tensors can only be summed");
    return run(OpType::_ALLREDUCE_SPARSE, "adjoin:sparse_all_reduce", {}, tensors, options,
               [tensor = tensors[0]](const Turn& turn) { all_reduce_sparse(turn, tensor); });
  }
  check_tensors(tensors);
  reduction_of(options.reduceOp, tensors[0].scalar_type());
  return run(OpType::ALLREDUCE, "adjoin:all_reduce", tensors, tensors, options,
             [tensor = tensors[0], op = options.reduceOp](const Turn& turn) { all_reduce(turn, tensor, op); });
}

WorkPtr ProcessGroup::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  check_tensors(tensors);
  for (const Tensor& tensor : tensors) reduction_of(options.reduceOp, tensor.scalar_type());
  return run(OpType::ALLREDUCE_COALESCED, "adjoin:all_reduce", tensors, tensors, options,
             [tensors, op = options.reduceOp](const Turn& turn) {
               for (const Tensor& tensor : tensors) all_reduce(turn, tensor, op);
             });
}

WorkPtr ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  check_one("reduce", tensors.size());
  check_tensors(tensors);
  check_root(options.rootRank, getSize());
  reduction_of(options.reduceOp, tensors[0].scalar_type());
  return run(OpType::REDUCE, "adjoin:reduce", tensors, tensors, options,
             [tensor = tensors[0], op = options.reduceOp, root = options.rootRank](const Turn& turn) {
               const Operand operand = Operand::in(tensor, flips_sign(op, tensor.scalar_type()));
               Call call = turn.call(Collective::reduce, operand.buffer(), operand.buffer(), tensor.scalar_type());
               call.reduction = reduction_of(op, tensor.scalar_type());
               call.root = static_cast<int>(root);
               turn.backend.run_collective(call);
               if (turn.backend.rank() == root) operand.give_back();
             });
}

WorkPtr ProcessGroup::allgather(std::vector<Tensors>& outs, Tensors& ins, const c10d::AllgatherOptions& options) {
  check_one("all_gather", ins.size());
  check_one("all_gather", outs.size());
  check_tensors(joined(ins, outs[0]));
  check_gathered(outs[0], ins[0], getRank(), getSize());
  return run(OpType::ALLGATHER, "adjoin:all_gather", ins, outs[0], options,
             [outs = outs[0], in = ins[0]](const Turn& turn) { all_gather(turn, outs, in); });
}

WorkPtr ProcessGroup::_allgather_base(Tensor& out, Tensor& in, const c10d::AllgatherOptions& options) {
  check_tensors({out, in});
  check_total("all_gather", out, in, getSize());
  return run(OpType::_ALLGATHER_BASE, "adjoin:_all_gather_base", {in}, {out}, options,
             [out, in](const Turn& turn) { all_gather(turn, out, in); });
}

WorkPtr ProcessGroup::allgather_coalesced(std::vector<Tensors>& outs, Tensors& ins,
                                          const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(std::ssize(outs) == getSize(), "adjoin: all_gather takes a list for each of ", getSize(),
                    " ranks, got ", outs.size());
  Tensors all = ins;
  for (const Tensors& list : outs) {
    TORCH_CHECK_VALUE(list.size() == ins.size(), "adjoin: all_gather takes lists of ", ins.size(),
                      " tensors, got one of ", list.size());
    all.insert(all.end(), list.begin(), list.end());
  }
  check_tensors(all);
  std::vector<Tensors> of_each(ins.size());
  for (size_t i = 0; i < ins.size(); ++i) {
    for (const Tensors& list : outs) of_each[i].push_back(list[i]);
    check_gathered(of_each[i], ins[i], getRank(), getSize());
  }
  return run(OpType::ALLGATHER_COALESCED, "adjoin:all_gather", ins, outs[0], options, [of_each, ins](const Turn& turn) {
    for (size_t i = 0; i < ins.size(); ++i) all_gather(turn, of_each[i], ins[i]);
  });
}

WorkPtr ProcessGroup::allgather_into_tensor_coalesced(Tensors& outs, Tensors& ins,
                                                      const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outs.size() == ins.size(), "adjoin: all_gather takes as many outputs as inputs, got ", outs.size(),
                    " and ", ins.size());
  check_tensors(joined(ins, outs));
  for (size_t i = 0; i < ins.size(); ++i) check_total("all_gather", outs[i], ins[i], getSize());
  return run(OpType::COALESCED, "adjoin:all_gather", ins, outs, options, [outs, ins](const Turn& turn) {
    for (size_t i = 0; i < ins.size(); ++i) all_gather(turn, outs[i], ins[i]);
  });
}

WorkPtr ProcessGroup::gather(std::vector<Tensors>& outs, Tensors& ins, const c10d::GatherOptions& options) {
  const Tensors list = list_of_root("gather", outs, ins, options.rootRank, getRank(), getSize());
  return run(OpType::GATHER, "adjoin:gather", ins, list, options,
             [list, in = ins[0], root = options.rootRank](const Turn& turn) {
               move_list(turn, Collective::gather, in, list, root);
             });
}

WorkPtr ProcessGroup::scatter(Tensors& outs, std::vector<Tensors>& ins, const c10d::ScatterOptions& options) {
  const Tensors list = list_of_root("scatter", ins, outs, options.rootRank, getRank(), getSize());
  return run(OpType::SCATTER, "adjoin:scatter", list, outs, options,
             [list, out = outs[0], root = options.rootRank](const Turn& turn) {
               move_list(turn, Collective::scatter, out, list, root);
             });
}

WorkPtr ProcessGroup::reduce_scatter(Tensors& outs, std::vector<Tensors>& ins,
                                     const c10d::ReduceScatterOptions& options) {
  check_one("reduce_scatter", outs.size());
  check_one("reduce_scatter", ins.size());
  check_tensors(joined(outs, ins[0]));
  check_list("reduce_scatter", ins[0], getSize(), outs[0].scalar_type());
  reduction_of(options.reduceOp, outs[0].scalar_type());
  const int64_t own = ins[0][static_cast<size_t>(getRank())].numel();
  TORCH_CHECK_VALUE(own == outs[0].numel(), "adjoin: reduce_scatter: the output of this rank has ", outs[0].numel(),
                    " elements, and its input ", own);
  return run(OpType::REDUCE_SCATTER, "adjoin:reduce_scatter", ins[0], outs, options,
             [out = outs[0], ins = ins[0], op = options.reduceOp](const Turn& turn) {
               const bool flips = flips_sign(op, out.scalar_type());
               const Flat from(ins, /*with_elements=*/true, flips);
               const Operand to = Operand::out(out, flips);
               Call call = turn.call(Collective::reduce_scatter, buffer_of(from.whole), to.buffer(), out.scalar_type());
               call.counts = from.counts;
               call.reduction = reduction_of(op, out.scalar_type());
               turn.backend.run_collective(call);
               to.give_back();
             });
}

WorkPtr ProcessGroup::_reduce_scatter_base(Tensor& out, Tensor& in, const c10d::ReduceScatterOptions& options) {
  check_tensors({out, in});
  check_total("reduce_scatter", in, out, getSize());
  reduction_of(options.reduceOp, in.scalar_type());
  return run(OpType::_REDUCE_SCATTER_BASE, "adjoin:_reduce_scatter_base", {in}, {out}, options,
             [out, in, op = options.reduceOp](const Turn& turn) { c10d_backend::reduce_scatter(turn, out, in, op); });
}

WorkPtr ProcessGroup::reduce_scatter_tensor_coalesced(Tensors& outs, Tensors& ins,
                                                      const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outs.size() == ins.size(), "adjoin: reduce_scatter takes as many outputs as inputs, got ",
                    outs.size(), " and ", ins.size());
  check_tensors(joined(ins, outs));
  for (size_t i = 0; i < ins.size(); ++i) {
    check_total("reduce_scatter", ins[i], outs[i], getSize());
    reduction_of(options.reduceOp, ins[i].scalar_type());
  }
  return run(OpType::REDUCE_SCATTER_TENSOR_COALESCED, "adjoin:reduce_scatter", ins, outs, options,
             [outs, ins, op = options.reduceOp](const Turn& turn) {
               for (size_t i = 0; i < ins.size(); ++i) c10d_backend::reduce_scatter(turn, outs[i], ins[i], op);
             });
}

WorkPtr ProcessGroup::alltoall_base(Tensor& out, Tensor& in, Counts& out_splits, Counts& in_splits,
                                    const c10d::AllToAllOptions& options) {
  check_tensors({out, in});
  TORCH_CHECK_VALUE(out.scalar_type() == in.scalar_type(), "adjoin: all_to_all takes tensors of one type, got ",
                    out.scalar_type(), " and ", in.scalar_type());
  check_splits(in_splits, in, getSize());
  check_splits(out_splits, out, getSize());
  // Peers read it while this rank writes `out`.
  const Tensor given = at::get_overlap_status(out, in) == at::MemOverlapStatus::No ? in : in.clone();
  return run(OpType::ALLTOALL_BASE, "adjoin:all_to_all", {given}, {out}, options,
             [out, in = given, out_splits, in_splits](const Turn& turn) {
               const Operand from = Operand::in(in), to = Operand::out(out);
               const Counts sends = counts_of(from.flat(), in_splits, turn.backend.size()),
                            receives = counts_of(to.flat(), out_splits, turn.backend.size());
               Call call = turn.call(Collective::all_to_all, from.buffer(), to.buffer(), in.scalar_type());
               call.counts = sends;
               call.receive_counts = receives;
               turn.backend.run_collective(call);
               to.give_back();
             });
}

WorkPtr ProcessGroup::alltoall(Tensors& outs, Tensors& ins, const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(!ins.empty() && !outs.empty(), "adjoin: all_to_all takes a tensor for each rank, got none");
  check_tensors(joined(ins, outs));
  check_list("all_to_all", ins, getSize(), ins[0].scalar_type());
  check_list("all_to_all", outs, getSize(), ins[0].scalar_type());
  return run(OpType::ALLTOALL, "adjoin:all_to_all", ins, outs, options, [outs, ins](const Turn& turn) {
    const Flat from(ins, /*with_elements=*/true), to(outs, /*with_elements=*/false);
    Call call = turn.call(Collective::all_to_all, buffer_of(from.whole), buffer_of(to.whole), ins[0].scalar_type());
    call.counts = from.counts;
    call.receive_counts = to.counts;
    turn.backend.run_collective(call);
    to.give_to(outs);
  });
}

}  // namespace adjoin::c10d_backend
