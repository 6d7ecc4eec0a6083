#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/contract/where.hpp"

namespace adjoin::python {

/// The line of Python that this thread is carrying out, outside of torch and of this package; none where all lines are within. The
/// interpreter's lock is held. Cost: about a microsecond
std::optional<Where> line_of_caller();

/// The same for a thread that need not hold the lock, which this takes; none in a thread without Python, and when the interpreter
/// ends.
std::optional<Where> find_caller();

/// The folders whose lines are never named.
void set_inner_folders(std::vector<std::string> folders);

}  // namespace adjoin::python
