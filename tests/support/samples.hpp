#pragma once

#include <string>
#include <vector>

#include "adjoin/data/samples.hpp"
#include "adjoin/data/vocabulary.hpp"

namespace adjoin::data {

/// All that a reader gives.
inline std::vector<Sample> all_of(SampleReader& reader) {
  std::vector<Sample> samples;
  for (Sample sample; reader.next(sample);) samples.push_back(sample);
  return samples;
}

inline WordCounter counted(const std::vector<Sample>& samples) {
  WordCounter counter;
  for (const Sample& sample : samples) counter.add(sample.text);
  return counter;
}

}  // namespace adjoin::data
