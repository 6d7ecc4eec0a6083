#pragma once

#include <vector>

#include "adjoin/data/class_names.hpp"
#include "adjoin/data/token_store.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The weights that a configuration lists; none if it lists none or says "balanced".
/// Throws: InvalidArgument for a text in another form
std::vector<double> listed_class_weights(const Configuration& configuration);

/// The weight of each class in the loss of training; none if all weigh equally. Balanced weights are N / (C n) for a class that
/// n of the N training samples of C classes have.
/// Throws: InvalidArgument where the configuration lists weights of another number of classes
/// Source: King and Zeng, "Logistic regression in rare events data", Political Analysis 9, 2001
std::vector<double> class_weights(const Configuration& configuration, const data::ClassNames& classes,
                                  const data::TokenStore& train);

}  // namespace adjoin::train
