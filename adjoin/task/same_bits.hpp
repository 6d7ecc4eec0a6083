#pragma once

#include <memory>
#include <optional>
#include <string>

#include "adjoin/partition/sum_tree.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin {
struct FixedOrder;
}

namespace adjoin::train {

/// How --same-bits divides sums; none without it. What it does not say follows from the batch, the sequence and the model alone.
/// Throws: InvalidArgument for a text that is not one, and for numbers that the batch or the model does not have
std::optional<SameBits> same_bits(const Configuration& configuration);

/// What a run with the text `run` goes on with where `given` is said anew: what that does not name stays.
std::string resumed_same_bits(const std::string& run, const std::string& given);

/// The order of a pass without gradients, in which samples do not meet; null without --same-bits. For the time in which a model is
/// made, too: each rank gets whole parts of features.
std::shared_ptr<const FixedOrder> order_of(const Configuration& configuration);

/// How much work the busiest rank has, as a part of an even share: above 1 where ranks do not divide lanes, parts of features or
/// blocks of tokens.
double share_of_busiest_rank(const Configuration& configuration);

/// What it makes of a layout: "sums of lanes=4,leaves=1,features=2; the busiest rank has 1.33 of an even share" where ranks do not
/// divide lanes, parts or blocks, and how many ranks have no lane. "" without --same-bits.
std::string same_bits_text(const Configuration& configuration);

/// Throws: InvalidArgument for what --same-bits does not go with, by name
void check_same_bits(const Configuration& configuration);

}  // namespace adjoin::train
