#pragma once

#include <memory>

#include "adjoin/data/samples.hpp"

namespace adjoin::data {

inline constexpr int kSampleTrainReviews = 6000;
inline constexpr int kSampleTestReviews = 600;

/// The sample corpus: film reviews of 10 to 60 words that a seeded grammar writes, half of them positive, the same on
/// every machine. A quarter of all praise and blame is negated. What a review says in all follows one rule:
///  - a clause that begins with a verdict ("overall", "in the end", ...) decides, whatever the other clauses say;
///  - without one, in "A, but B" and "although A, B" the clause B decides;
///  - without either, all clauses agree.
/// So the label follows from the words' order, and counting praise and blame is not enough.
/// Labels are positive and negative, by turns.
std::unique_ptr<SampleReader> open_sample_corpus(Part part);

}  // namespace adjoin::data
