#include "adjoin/comm/algorithm/algorithm_backend.hpp"

#include "adjoin/comm/algorithm/perform.hpp"
#include "adjoin/comm/algorithm/rank_order.hpp"

namespace adjoin {

using algorithm::perform;

std::shared_ptr<Backend> AlgorithmBackend::subset(std::span<const int> ranks) {
  return std::make_shared<AlgorithmBackend>(inner_->subset(ranks), choice_);
}

std::shared_ptr<Backend> AlgorithmBackend::for_thread(bool is_for_any_thread) {
  return std::make_shared<AlgorithmBackend>(inner_->for_thread(is_for_any_thread), choice_);
}

void AlgorithmBackend::begin_call(Operation& operation) {
  // One that stands before this one may have taken the call already.
  if (operation.name == name(choice_.collective) && operation.algorithm.empty()) {
    const int64_t elements = operation.counts.empty() ? operation.count : algorithm::total_of(operation.counts);
    operation.algorithm = choice_.algorithm != "auto"
                              ? choice_.algorithm
                              : algorithm::choose(choice_.collective, size(), elements * size_of(operation.type));
  }
  inner_->begin_call(operation);
}

algorithm::Request AlgorithmBackend::request(int root, int64_t count, std::span<const int64_t> counts) const {
  return {.collective = choice_.collective,
          .size = size(),
          .root = root,
          .count = count,
          .counts = {counts.begin(), counts.end()},
          .chunk = choice_.chunk};
}

void AlgorithmBackend::barrier() {
  if (!takes(Collective::barrier)) return inner_->barrier();
  perform(request(0, 0), choice_.algorithm, *inner_, {}, {});
}

void AlgorithmBackend::broadcast(Buffer buffer, int root) {
  if (!takes(Collective::broadcast)) return inner_->broadcast(buffer, root);
  perform(request(root, buffer.count), choice_.algorithm, *inner_, {}, buffer);
}

void AlgorithmBackend::reduce(ConstBuffer in, Buffer out, Reduction reduction, int root) {
  if (!takes(Collective::reduce)) return inner_->reduce(in, out, reduction, root);
  if (in_rank_order()) return reduce_in_rank_order(*inner_, in, out, reduction, root);
  out.type = in.type;  // where this rank is not the root nothing was given
  perform(request(root, in.count), choice_.algorithm, *inner_, in, out, reduction);
}

void AlgorithmBackend::all_reduce(Buffer buffer, Reduction reduction) {
  if (!takes(Collective::all_reduce)) return inner_->all_reduce(buffer, reduction);
  if (in_rank_order()) return all_reduce_in_rank_order(*inner_, buffer, reduction);
  perform(request(0, buffer.count), choice_.algorithm, *inner_, {}, buffer, reduction);
}

void AlgorithmBackend::gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) {
  if (!takes(Collective::gather)) return inner_->gather(in, out, counts, root);
  out.type = in.type;
  perform(request(root, 0, counts), choice_.algorithm, *inner_, in, out);
}

void AlgorithmBackend::scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) {
  if (!takes(Collective::scatter)) return inner_->scatter(in, out, counts, root);
  perform(request(root, 0, counts), choice_.algorithm, *inner_, in, out);
}

void AlgorithmBackend::all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts) {
  if (!takes(Collective::all_gather)) return inner_->all_gather(in, out, counts);
  perform(request(0, 0, counts), choice_.algorithm, *inner_, in, out);
}

void AlgorithmBackend::reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts,
                                      Reduction reduction) {
  if (!takes(Collective::reduce_scatter)) return inner_->reduce_scatter(in, out, counts, reduction);
  if (in_rank_order()) return reduce_scatter_in_rank_order(*inner_, in, out, counts, reduction);
  perform(request(0, 0, counts), choice_.algorithm, *inner_, in, out, reduction);
}

void AlgorithmBackend::all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                                  std::span<const int64_t> receive_counts) {
  if (!takes(Collective::all_to_all)) return inner_->all_to_all(in, send_counts, out, receive_counts);
  algorithm::perform_all_to_all(choice_.algorithm, *inner_, in, send_counts, out, receive_counts);
}

}  // namespace adjoin
