#pragma once

#include <string>

namespace adjoin {

/// How many forks lie between this process and the first one of the program.
int fork_depth() noexcept;

/// The process in which this object was made. A child made by fork() is another one: it has copies of all objects, but its peers
/// do not know it and the other threads of its parent do not exist in it.
class ProcessOwner {
 public:
  bool is_here() const noexcept { return depth_ == fork_depth(); }
  /// Throws InvalidArgument, which begins with `lead`, unless it is this process.
  void require_here(const std::string& lead) const;

 private:
  int depth_ = fork_depth();
};

}  // namespace adjoin
