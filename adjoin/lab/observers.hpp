#pragma once

#include <memory>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::lab {

/// `group` with `observer` seeing every operation too, after whoever observes it already.
Communicator also_observed_by(const Communicator& group, std::shared_ptr<Observer> observer);

}  // namespace adjoin::lab
