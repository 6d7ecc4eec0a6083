#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace adjoin {

/// Whether the processes of an MPI job on one host reach each other's memory. If so, their tensors are stored in memory that
/// they share. Then they are as fast as threads, and their calls are compared as strictly.
enum class HostMemory : uint8_t {
  automatic,  // where it is possible
  on,         // the job is refused where it is not possible
  off         // MPI's messages only
};

/// "auto", "on" or "off".
/// Throws: InvalidArgument that begins with `what` for another word
HostMemory host_memory_named(std::string_view text, const std::string& what);

/// The environment's ADJOIN_HOST_MEMORY; automatic where it is not set.
/// Throws: InvalidArgument for another word
HostMemory host_memory_from_environment();
/// `given`; where that is automatic, what the environment says.
HostMemory host_memory_or_environment(HostMemory given);

/// The number of ranks on this host, including this one, that share memory in the latest launch; 0 where none do, and why.
struct HostMemoryUse {
  int ranks = 0;
  std::string why_none = "";
};
HostMemoryUse host_memory_use();
void note_host_memory(HostMemoryUse use);  // by a launch

/// Registers `action` to be called when ranks begin, before they use any memory: the threads of a launch, or the processes of a
/// job, which by then share memory where they can. Returns true.
bool when_ranks_begin(void (*action)());
/// Called by a launch.
void ranks_begin();

/// Memory that collectives and messages use without a copy, also where the ranks are processes that share memory; aligned to 64
/// bytes. Tensors of the program are in such memory anyway.
/// Throws: std::bad_alloc
std::shared_ptr<void> host_memory(size_t bytes);

}  // namespace adjoin
