#include "adjoin/comm/threads/call.hpp"

namespace adjoin::threads {

std::string describe(const Call& call) {
  return call.operation ? adjoin::describe(*call.operation) : std::string(name(call.signature.collective));
}

}  // namespace adjoin::threads
