#include "adjoin/comm/observers.hpp"

#include <ranges>
#include <utility>

namespace adjoin {

Observers::Observers(std::vector<std::shared_ptr<Observer>> observers) : observers_(std::move(observers)) {}

void Observers::begin(const Call& call) {
  for (const auto& observer : observers_) observer->begin(call);
}

void Observers::end(const Call& call) {
  for (const auto& observer : std::views::reverse(observers_)) observer->end(call);
}

void Observers::begin_wait(const Call* begun) {
  for (const auto& observer : observers_) observer->begin_wait(begun);
}

void Observers::end_wait(const Call* begun) {
  for (const auto& observer : std::views::reverse(observers_)) observer->end_wait(begun);
}

Communicator also_observed_by(const Communicator& group, std::shared_ptr<Observer> observer) {
  if (!group.observer()) return group.observed_by(std::move(observer));
  return group.observed_by(std::make_shared<Observers>(std::vector{group.observer(), std::move(observer)}));
}

}  // namespace adjoin
