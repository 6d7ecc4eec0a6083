#pragma once

#include <cstdint>
#include <optional>

namespace at {
class Tensor;
}

namespace adjoin::models {

/// How the next word is drawn. The draw depends on seed, sequence and the word's place in it alone.
struct Sampling {
  double temperature = 1;             ///< divides the scores: a lower one draws the likeliest words more often
  std::optional<int64_t> top_k = {};  ///< draws only from this number of likeliest words
  double top_p = 1;  ///< after top_k: draws only from the fewest likeliest words that together have this probability
  uint64_t seed = 0;
  int64_t sequence = 0;  ///< distinguishes texts that are drawn with one seed
};

/// Throws: InvalidArgument for a temperature not above 0 or not finite, a top_k below 1, a top_p outside (0, 1]
void check(const Sampling& sampling);

/// The word with the highest score; of equal scores the first.
/// Shape:  scores [words], of any floating-point type
/// Throws: InvalidArgument for scores that are not finite
int64_t likeliest_word(const at::Tensor& scores);

/// A word drawn for place `position` of the sequence, in float64.
/// Shape:  scores [words], of any floating-point type
/// Cost:   all words are sorted; one Philox block
/// Throws: InvalidArgument as check, and for scores that are not finite
/// Source: Fan et al., arXiv 1805.04833 (top-k); Holtzman et al., arXiv 1904.09751 (top-p)
int64_t drawn_word(const at::Tensor& scores, const Sampling& sampling, int64_t position);

}  // namespace adjoin::models
