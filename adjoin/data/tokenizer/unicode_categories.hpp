#pragma once

namespace adjoin::data {

// The categories of Unicode 8.0, which BERT's reference tokenizer uses. They do not depend on the version of the system's
// libraries, since a vocabulary only works if all its users agree.

/// Control, format or private use (Cc, Cf, Co), tab and line ends included.
bool is_control(char32_t point);

/// A mark without its own width, such as an accent (Mn).
bool is_nonspacing_mark(char32_t point);

/// Punctuation (P*) and every ASCII character that is not a letter, digit, space or control character, such as $ and ^.
bool is_punctuation(char32_t point);

/// White space that separates words: Zs, Zl, Zp, tab, line feed and carriage return.
bool is_white_space(char32_t point);

/// An ideograph of Chinese, Japanese or Korean, which BERT makes a word of its own.
bool is_cjk_ideograph(char32_t point);

}  // namespace adjoin::data
