#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include <utility>

#include "python/c10d/process_group.hpp"

/// How ProcessGroup carries out its collectives, for the files that define them.
namespace adjoin::c10d_backend {

/// Throws ValueError unless all are dense tensors of the CPU.
void check_tensors(const Tensors& tensors);

template <class CallOptions, class Body>
WorkPtr ProcessGroup::run(c10d::OpType op, const char* title, const Tensors& ins, Tensors outs,
                          const CallOptions& options, Body body) {
  check_usable();
  host::notice_of_thread();
  for (const Tensors* tensors : {&ins, static_cast<const Tensors*>(&outs)})  // while nobody else works on them
    for (const at::Tensor& tensor : *tensors) share(tensor);
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
  const bool is_inline = !options.asyncOp && queue_->begin_inline();
  const uint64_t sequence = ++sequence_;
  auto work = c10::make_intrusive<CollectiveWork>(getRank(), op, title, ins, std::move(outs), sequence,
                                                  is_inline ? std::weak_ptr<Queue>() : queue_);
  const auto carry_out = [this, body = std::move(body), sequence, timeout](const Where& where) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    member_->set_timeout(timeout);
    body(Turn{*backend_, identity_, where, sequence});
  };
  if (!is_inline) {
    const Where where = python::find_caller().value_or(Where());
    queue_->add({work, [carry_out, where] { carry_out(where); }});
    return work;
  }
  std::exception_ptr error;
  try {
    carry_out(Where());
  } catch (...) {
    error = std::current_exception();
  }
  queue_->end_inline();
  work->end(error);
  if (error) throw_translated(error);
  return work;
}

}  // namespace adjoin::c10d_backend
