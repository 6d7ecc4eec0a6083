#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "adjoin/tensors/program_segment.hpp"

// How an exported program gets texts: as "input_ids" [texts, tokens] and, if it has these inputs, "attention_mask", 1 for tokens and 0
// for the padding after them, and "token_type_ids", which are 0.

namespace adjoin::train {

/// Throws: InvalidArgument in one line for a program with other inputs, or without input_ids
void check_reads_texts(const ProgramNet& net);

/// The only number of tokens that it takes, if it takes no other.
std::optional<int64_t> only_length(const ProgramNet& net);
/// The configuration with texts that are not longer than that.
Configuration with_length(Configuration configuration, const ProgramNet& net);

/// A task of a program of texts, from what `read` gives; the program is read first.
template <class Task, class Read>
std::unique_ptr<Task> task_of(const Configuration& configuration, const Read& read) {
  auto net = std::make_shared<const ProgramNet>(configuration);
  const Configuration with = with_length(configuration, *net);
  return std::make_unique<Task>(std::move(net), with, read(with));
}

/// The input of a micro-batch [texts, 2, tokens]: ids and mask, of texts that follow one another.
at::Tensor padded_texts(const at::Tensor& ids, const std::vector<int64_t>& lengths, int64_t tokens, int64_t padding);
/// What the program gets of it.
ProgramNet::Unpack texts_for(const ProgramNet& net);

}  // namespace adjoin::train
