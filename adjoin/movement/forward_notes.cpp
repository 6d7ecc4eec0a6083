#include "adjoin/movement/forward_notes.hpp"

#include <utility>

namespace adjoin {
namespace {

thread_local ForwardNotes* innermost = nullptr;

}  // namespace

ForwardNotes::ForwardNotes() : outer_(std::exchange(innermost, this)) {}

ForwardNotes::~ForwardNotes() {
  innermost = outer_;
}

ForwardNotes* ForwardNotes::current() {
  return innermost;
}

at::Tensor declared(const char* name, const at::Tensor& x, const Layout& layout, const Grid& grid) {
  if (innermost) innermost->add(KnownTensor{name, x, layout, grid.world()});
  return x;
}

}  // namespace adjoin
