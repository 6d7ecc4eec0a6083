#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/samples.hpp"

namespace adjoin::data {

/// The names of a data set's classes. A class is its place among them, which is what a model learns.
class ClassNames {
 public:
  /// negative and positive, whose labels may also be 0 and 1, or neg and pos, in capitals or not.
  ClassNames();

  /// Throws: InvalidArgument where there is none, or one is empty or stands twice.
  explicit ClassNames(std::vector<std::string> names);

  /// The classes that these labels name: negative and positive where each label is one of theirs; else whole numbers in
  /// their order, words in that of their bytes.
  static ClassNames of(const std::set<std::string>& labels);

  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  const std::string& name(int64_t class_index) const { return names_.at(static_cast<size_t>(class_index)); }
  const std::vector<std::string>& names() const { return names_; }
  bool operator==(const ClassNames&) const = default;

  /// The class that a label names. One of two that mean negative and positive, as NEG and POS do, has the other spellings too.
  std::optional<int64_t> find(std::string_view label) const;

  /// The labels there are, for an error.
  std::string expected() const;

 private:
  std::vector<std::string> names_;
};

/// The classes of a data set and that of each of its samples.
struct Labels {
  ClassNames classes;
  std::vector<int32_t> of_sample;
};

/// Reads all samples for their labels, which name one of the given classes or, without them, make the classes.
/// Throws: InvalidArgument as the reader does, and with file and line for a label that is empty or names no class.
Labels read_labels(SampleReader& samples, const std::optional<ClassNames>& given = {});

}  // namespace adjoin::data
