#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace adjoin::data {

/// One sample of a two-class data set; label 1 is positive, 0 negative.
struct Review {
  std::string text;
  int label = 0;
};

enum class Part { train, test };

struct Reviews {
  std::vector<Review> samples;
  int64_t dropped_bytes = 0;  // that were not UTF-8
};

/// Reads one part of a data set. `path` is a folder with, for the training part, the first of these that it has:
/// train.csv, train.csv.gz, dataset_train.csv, dataset_train.csv.gz, train/{pos,neg}/*.txt; and for the test part
/// test.*, dataset_val.* and test/ likewise. The test part may also be one CSV file.
/// Text files come in the order of their names, positive ones first. Texts are kept as they are, but for bytes that are
/// not UTF-8, which are dropped and counted.
/// Throws: InvalidArgument, in one line that names the file (and line) and what is wrong with it.
Reviews load_reviews(const std::string& path, Part part);

/// Reads a CSV file with a header that names a column "text" (or "review") and a column "label" (or "sentiment"), whose
/// values are 0 or 1, neg or pos, negative or positive.
/// Throws: as load_reviews.
Reviews load_reviews_csv(const std::string& path);

/// The order in which the first samples are to be used: positive and negative by turns, each in the order of the file;
/// where one kind runs out the other goes on. At most `count` indices.
std::vector<int64_t> balanced_order(std::span<const int> labels, int64_t count);

/// The first `count` samples in balanced order.
std::vector<Review> take_balanced(std::vector<Review> samples, int64_t count);

}  // namespace adjoin::data
