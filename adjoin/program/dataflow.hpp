#pragma once

#include <set>
#include <string>
#include <vector>

#include "adjoin/program/graph.hpp"

namespace adjoin::program {

/// What a node does besides making its outputs.
struct Effects {
  std::vector<Slot> reads = {}, writes = {};  ///< what it writes in place it reads too
  bool draws = false;                         ///< random numbers
};
Effects effects_of(const Node& node);

/// Finds after which node each value is no longer needed.
void find_last_uses(Graph& graph);

/// Some nodes of a graph, with the slots of the whole.
struct Part {
  Graph graph;
  std::vector<Slot> takes = {}, gives = {};  ///< values of the nodes before and for the nodes after it
  int64_t draws_before = 0;                  ///< the nodes before it that draw random numbers
};

/// How the values of a graph depend on one another, by which it is cut between nodes. Values that depend on nothing but inputs,
/// constants and buffers that nothing writes (masks, positions, sizes) are free: each part that reads them computes them again.
class Dataflow {
 public:
  /// `free`: the inputs that each part has. The graph must outlive this object.
  Dataflow(const Graph& graph, const std::set<Slot>& free);

  size_t nodes() const { return effects_.size(); }
  const Effects& effects(size_t node) const { return effects_[node]; }
  /// The node after the last to read a value.
  size_t read_until(Slot slot) const { return read_[static_cast<size_t>(slot)]; }
  /// What goes over a border, the place of the first node after it.
  std::vector<Slot> alive(size_t border) const;
  /// Its bytes at the sizes of the example.
  int64_t bytes_alive(size_t border) const;
  /// Why the graph cannot be cut there: a value after it is written that another one before it shares memory with. Otherwise "".
  std::string why_not(size_t border) const;
  /// The nodes between two borders, and those before them whose free values they read.
  Part part(size_t begin, size_t end) const;

 private:
  void join_what_shares_memory();
  void find_free(const std::set<Slot>& free);
  bool is_free(Slot slot) const { return is_free_[static_cast<size_t>(slot)]; }
  Slot root(Slot slot) const { return roots_[static_cast<size_t>(slot)]; }

  const Graph& graph_;
  std::vector<Effects> effects_;
  std::vector<size_t> made_;  // of each slot, the node after that which makes it; 0 for inputs
  std::vector<size_t> read_;  // of each slot, the node after the last to read it
  std::vector<Slot> roots_;   // of each slot, the first one with which it may share memory
  std::vector<bool> is_free_, is_free_node_;
};

}  // namespace adjoin::program
