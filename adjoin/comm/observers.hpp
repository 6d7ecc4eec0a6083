#pragma once

#include <memory>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// Several observers as one: each sees the begin of a call in their order and its end in the reverse order, so that the
/// time that the first one records contains that of the others.
class Observers final : public Observer {
 public:
  explicit Observers(std::vector<std::shared_ptr<Observer>> observers);

  void begin(const Call& call) override;
  void end(const Call& call) override;
  void begin_wait(const Call* begun) override;
  void end_wait(const Call* begun) override;

 private:
  const std::vector<std::shared_ptr<Observer>> observers_;
};

/// `group` with `observer` in addition to its present observer, and inside of it.
Communicator also_observed_by(const Communicator& group, std::shared_ptr<Observer> observer);

}  // namespace adjoin
