#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/contract/where.hpp"

namespace adjoin::c10d_backend {

/// The line of Python that this thread is carrying out, outside of torch and of this package; none in a thread without Python,
/// and when the interpreter ends. Takes the interpreter's lock. Cost: about a microsecond
std::optional<Where> find_caller();

/// The folders whose lines are never named.
void set_inner_folders(std::vector<std::string> folders);

}  // namespace adjoin::c10d_backend
