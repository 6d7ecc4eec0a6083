#include "adjoin/comm/mpi/send_progress.hpp"

#include <mpi.h>

namespace adjoin::mpi {

void SendProgress::begin() {
  const std::lock_guard lock(mutex_);
  if (sends_.fetch_add(1) > 0) return;
  int level = 0;
  MPI_Query_thread(&level);
  if (level != MPI_THREAD_MULTIPLE) return;
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  has_begun_.notify_one();
}

void SendProgress::end() {
  sends_.fetch_sub(1);
}

void SendProgress::look() {
  int has_come = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &has_come, MPI_STATUS_IGNORE);
}

void SendProgress::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (has_begun_.wait(lock, stop, [this] { return any(); })) {
    lock.unlock();
    look();
    std::this_thread::sleep_for(kPause);
    lock.lock();
  }
}

}  // namespace adjoin::mpi
