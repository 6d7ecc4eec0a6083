#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "adjoin/base/process_owner.hpp"
#include "adjoin/comm/contract/own_call.hpp"
#include "adjoin/comm/host/notice.hpp"
#include "python/c10d/member.hpp"

namespace adjoin::c10d_backend {

/// Throws as torch's exceptions what adjoin's calls throw: CommunicationError as DistBackendError, InvalidArgument as ValueError.
void run_translated(const std::function<void()>& call);
/// The same from an exception.
[[noreturn]] void throw_translated(const std::exception_ptr& error);

class Queue;

/// Throws: ValueError in a child by fork() of the process that `owner` is of
void check_process(const ProcessOwner& owner);

/// A collective of the group's queue, or one that is over.
class CollectiveWork final : public c10d::Work {
 public:
  CollectiveWork(int rank, c10d::OpType op, const char* title, const std::vector<at::Tensor>& in,
                 std::vector<at::Tensor> out, uint64_t sequence, std::weak_ptr<Queue> queue)
      : Work(rank, op, title, in), title_(title), out_(std::move(out)), sequence_(sequence), queue_(std::move(queue)) {}

  /// It is over, or has failed with `error`.
  void end(std::exception_ptr error = nullptr);

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return out_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  const ProcessOwner process_;
  const std::string_view title_;  // a literal
  const std::vector<at::Tensor> out_;
  const uint64_t sequence_;
  const std::weak_ptr<Queue> queue_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // made when asked for
};

/// The collectives of a group that its callers do not wait for, and those after them, carried out one after another by a thread
/// that the first of them makes.
class Queue {
 public:
  struct Task {
    c10::intrusive_ptr<CollectiveWork> work;
    std::function<void()> run;
  };

  ~Queue() { stop(); }
  /// True where nothing runs or is queued: then the caller carries its collective out itself, until end_inline().
  bool begin_inline();
  void end_inline();
  void add(Task task);
  /// Carries out the work's task in this thread, if it is the next: its waiter need not wait for the thread to wake. A callback of a
  /// task, which waits for a later one, carries out all up to that.
  void run_up_to(const CollectiveWork& work);
  /// Waits until all is done.
  void stop();

 private:
  void serve();
  /// Carries out the first task, without the lock meanwhile.
  void run_next(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changes_;
  std::deque<Task> tasks_;
  bool runs_inline_ = false, runs_task_ = false, stops_ = false;
  host::AgentNotice* notice_ = nullptr;  // of the thread
  std::thread thread_;
};

/// A send or a receive, which goes on by itself once both sides have posted it.
class MessageWork final : public c10d::Work {
 public:
  /// Posts the message of `call` for the elements of `tensor`. Its peer is -1 for a receive from any rank.
  MessageWork(std::shared_ptr<Member> member, c10d::OpType op, const char* title, const at::Tensor& tensor,
              const Call& call, std::chrono::milliseconds timeout);

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return {tensor_}; }
  int sourceRank() const override { return posted_->peer(); }
  void abort() override { member_->world().end("a message was aborted"); }

 private:
  void end(std::exception_ptr error);

  const ProcessOwner process_;
  const std::shared_ptr<Member> member_;
  const at::Tensor tensor_, shared_;  // the same where the peers reach it
  const std::chrono::milliseconds timeout_;
  OwnCall call_;
  std::unique_ptr<Member::PostedMessages> posted_;
  std::mutex waiting_;
};

}  // namespace adjoin::c10d_backend
