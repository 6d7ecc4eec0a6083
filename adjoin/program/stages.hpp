#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/parallel/pipelined.hpp"
#include "adjoin/program/program.hpp"

namespace adjoin::program {

/// A program cut into so many stages of a pipeline, of nearly equal measured times:
///
///     const auto net = program::load_program("net.pt2");
///     parallel::Pipelined model(*net, program::stages(net, 4, world, {ids, mask}), grid, pipeline::make_schedule("1f1b", 4, 8));
///
/// Each operator is timed forward on the first rank, with `example` as inputs. Near an equal cut the fewest bytes cross it. What
/// depends on inputs and constants alone (masks, positions, sizes) is computed again in each stage, and is not sent. A micro-batch has
/// the program's inputs, in their order, whole numbers as tensors of one element. Masks of dropout do not depend on the cuts, and for
/// one micro-batch are those of `distribute`. In eval mode the graph of eval mode is cut where the weights of the stages are.
/// Throws: InvalidArgument where it cannot be cut into so many, and as Program::run
/// Cost:   three forward passes on the first rank, and a message; nothing for one stage
std::vector<parallel::Child> stages(const std::shared_ptr<Program>& net, int count, const Communicator& world,
                                    const std::vector<c10::IValue>& example);

/// The places of such cuts, measured on this rank alone: the numbers of the first operator of each stage, and that of all operators.
std::vector<int64_t> stage_borders(const Program& net, int count, const std::vector<c10::IValue>& example);
/// The stages between them. Throws: InvalidArgument where it cannot be cut there
std::vector<parallel::Child> stages_between(const std::shared_ptr<Program>& net, const std::vector<int64_t>& borders);

/// The same as `stages` with one stage more than names, cut before the first operator of each module, "encoder.layer.2", or after each value,
/// "linear_3". Throws: InvalidArgument for a name of neither, or where a value would be written on both sides
std::vector<parallel::Child> stages_at(const std::shared_ptr<Program>& net, const std::vector<std::string>& names);

}  // namespace adjoin::program
