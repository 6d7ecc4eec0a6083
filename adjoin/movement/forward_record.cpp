#include "adjoin/movement/forward_record.hpp"

#include <utility>

namespace adjoin {
namespace {

thread_local ForwardRecord* innermost = nullptr;

}  // namespace

ForwardRecord::ForwardRecord() : outer_(std::exchange(innermost, this)) {}

ForwardRecord::~ForwardRecord() {
  innermost = outer_;
}

ForwardRecord* ForwardRecord::current() {
  return innermost;
}

at::Tensor declared(const char* name, const at::Tensor& x, const Layout& layout, const Grid& grid) {
  if (innermost) innermost->add(KnownTensor{name, x, layout, grid.world()});
  return x;
}

}  // namespace adjoin
