#pragma once

#include <cstdint>
#include <string>

namespace adjoin {

enum class ProcessState { runs, stopped, gone };  // stopped: by a debugger or a signal; it may go on some time later

/// Of a process of this host. A zombie counts as gone.
ProcessState state_of_process(int64_t id);

/// Of this process, also after a fork. Cost: a few nanoseconds, as it is kept.
uint32_t id_of_process();

/// When a process was started, in the kernel's clock ticks: a later process with the same id has another time. 0 where it is not known.
int64_t start_of_process(int64_t id);

/// Differs between machines that run, and is the same in all containers of one.
std::string id_of_machine();

/// The name of this host, as the kernel knows it.
std::string host_name();

}  // namespace adjoin
