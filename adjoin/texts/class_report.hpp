#pragma once

#include <string>

#include "adjoin/data/class_names.hpp"
#include "adjoin/texts/class_counts.hpp"

namespace adjoin::train {

/// A table of each class's number of samples and F1, below it the macro F1, and then the confusion matrix if it is not wider than `columns`: a row
/// for each class that the samples have, a column for each class that they were taken for.
std::string class_report(const data::ClassNames& classes, const ClassCounts& counts, size_t columns);

}  // namespace adjoin::train
