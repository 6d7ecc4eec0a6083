#include "adjoin/lab/observers.hpp"

#include <utility>

namespace adjoin::lab {

namespace {

class BothObservers final : public Observer {
 public:
  BothObservers(std::shared_ptr<Observer> first, std::shared_ptr<Observer> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  void begin(const Call& call) override {
    first_->begin(call);
    second_->begin(call);
  }
  void end(const Call& call) override {
    first_->end(call);
    second_->end(call);
  }
  void begin_wait(const Call* send) override {
    first_->begin_wait(send);
    second_->begin_wait(send);
  }
  void end_wait(const Call* send) override {
    first_->end_wait(send);
    second_->end_wait(send);
  }

 private:
  const std::shared_ptr<Observer> first_, second_;
};

}  // namespace

Communicator also_observed_by(const Communicator& group, std::shared_ptr<Observer> observer) {
  if (!group.observer()) return group.observed_by(std::move(observer));
  return group.observed_by(std::make_shared<BothObservers>(group.observer(), std::move(observer)));
}

}  // namespace adjoin::lab
