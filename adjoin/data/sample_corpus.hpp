#pragma once

#include <memory>

#include "adjoin/data/samples.hpp"

namespace adjoin::data {

inline constexpr int kSampleTrainReviews = 6000;
inline constexpr int kSampleTestReviews = 600;

/// The sample corpus: film reviews of 10 to 60 words from a seeded grammar, half of them positive, the same on every machine. A
/// quarter of all praise and blame is negated. One rule decides the overall opinion of a review:
///  - a clause that begins with a verdict ("overall", "in the end", ...) decides, whatever the other clauses say;
///  - without such a clause, in "A, but B" and "although A, B" the clause B decides;
///  - without these either, all clauses agree.
/// So the label depends on the order of the words, and counting praise and blame is not enough. Labels alternate between
/// positive and negative.
std::unique_ptr<SampleReader> open_sample_corpus(Part part);

}  // namespace adjoin::data
