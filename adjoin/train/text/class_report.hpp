#pragma once

#include <string>

#include "adjoin/data/class_names.hpp"
#include "adjoin/train/text/class_counts.hpp"

namespace adjoin::train {

/// A table of the samples and the F1 of each class, and below it the confusion matrix, a row for each class that the samples
/// have and a column for each they were taken for, where it is no wider than `columns`.
std::string class_report(const data::ClassNames& classes, const ClassCounts& counts, size_t columns);

}  // namespace adjoin::train
