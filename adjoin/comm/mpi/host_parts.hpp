#pragma once

#include <memory>

#include "adjoin/comm/host/by_parts.hpp"

namespace adjoin::mpi {

class Group;

/// The parts of a group over several hosts, as groups of MPI.
struct HostParts : host::Parts {
  std::shared_ptr<Group> own;      // the part of this rank; nullptr where this rank is alone in it
  std::shared_ptr<Group> leaders;  // nullptr where this rank is not a leader
};

}  // namespace adjoin::mpi
