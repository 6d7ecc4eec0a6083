#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace adjoin {

/// Whether the processes of an MPI job that are on one host reach each other's memory, for which their tensors then lie in memory
/// that they share. So they are as quick as threads, and as strict.
enum class HostMemory {
  automatic,  // where that can be
  on,         // else the job is refused
  off         // messages of MPI
};

/// "auto", "on" or "off".
/// Throws: InvalidArgument that begins with `what` for another word
HostMemory host_memory_named(std::string_view text, const std::string& what);

/// The environment's ADJOIN_HOST_MEMORY; automatic where it is not set.
/// Throws: InvalidArgument for another word
HostMemory host_memory_from_environment();

/// How many ranks of this host, this one among them, share memory; 0 where none do, and why. Of the latest launch.
struct HostMemoryUse {
  int ranks = 0;
  std::string why_none = "";
};
HostMemoryUse host_memory_use();
void note_host_memory(HostMemoryUse use);  // by a launch

/// Has `action` called when ranks begin, before they use any memory: those of a launch on threads, or the processes of a job, which
/// share memory by then where they can; true.
bool when_ranks_begin(void (*action)());
/// By a launch.
void ranks_begin();

/// Memory that collectives and messages use without a copy, also where the ranks are processes that share some: a multiple of 64.
/// Tensors of the program are there without it.
/// Throws: std::bad_alloc
std::shared_ptr<void> host_memory(size_t bytes);

}  // namespace adjoin
