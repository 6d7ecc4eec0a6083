#pragma once

#include <cstdint>
#include <string>

namespace adjoin {

enum class ProcessState { runs, stopped, gone };  // stopped: by a debugger or a signal; it may go on some time later

/// Of a process of this host. A zombie counts as gone.
ProcessState state_of_process(int64_t id);

/// The name of this host, as the kernel knows it.
std::string host_name();

}  // namespace adjoin
