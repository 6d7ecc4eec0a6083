#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/samples.hpp"

namespace adjoin::data {

/// The names of a data set's classes. A class is the number of its place among them, which is what a model learns.
class ClassNames {
 public:
  /// Negative and positive; their labels may also be 0 and 1, or neg and pos, in any case.
  ClassNames();

  /// Throws: InvalidArgument where there are no names, or where one is empty or occurs twice.
  explicit ClassNames(std::vector<std::string> names);

  /// The classes that these labels name: negative and positive if all labels belong to these; else whole numbers in numerical
  /// order, and words in the order of their bytes.
  static ClassNames of(const std::set<std::string>& labels);

  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  const std::string& name(int64_t class_index) const { return names_.at(static_cast<size_t>(class_index)); }
  const std::vector<std::string>& names() const { return names_; }
  bool operator==(const ClassNames&) const = default;

  /// The class that a label names. For names that mean negative and positive, such as NEG and POS, the other spellings are
  /// accepted too.
  std::optional<int64_t> find(std::string_view label) const;

  /// The list of possible labels, for an error.
  std::string expected() const;

 private:
  std::vector<std::string> names_;
};

/// The classes of a data set, and the class of each sample.
struct Labels {
  ClassNames classes;
  std::vector<int32_t> of_sample;
};

/// Reads the labels of all samples. They must name one of the given classes; if none are given, they define the classes.
/// Throws: InvalidArgument as the reader does, and with file and line for a label that is empty or names no class.
Labels read_labels(SampleReader& samples, const std::optional<ClassNames>& given = {});

}  // namespace adjoin::data
