#include "adjoin/data/tokenizer/wordpiece.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "adjoin/data/samples.hpp"
#include "tests/data/data_files.hpp"
#include "tests/support/sanitized.hpp"

namespace adjoin::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> split(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

WordPiece tiny() {
  return WordPiece(split(
      "[PAD] [UNK] [CLS] [SEP] [MASK] the film was not un ##believ ##able ##a good bad caf ##e e , . ! ' [ ] mask ( ) "
      "# < br / > \u6f22 \u5b57 ss \u00df ##i i istanbul ##st = \u1112 ##\u1161 ##\u11ab \ufb01 ##lm $ \u00bd a ##aa x "
      "##x 2 ##0 2nd"));
}

// The expected ids of these tests were made by BertWordPieceTokenizer of the Python package tokenizers 0.23.3.

TEST(WordPiece, takes_the_longest_piece_first) {
  EXPECT_THAT(tiny().encode("The film was NOT good!"), ElementsAre(5, 6, 7, 8, 13, 20));
  EXPECT_THAT(tiny().encode("unbelievable, unbelieva"), ElementsAre(9, 10, 11, 18, 9, 10, 12));
  EXPECT_THAT(tiny().encode("zzz the"), ElementsAre(1, 5));
}

TEST(WordPiece, strips_accents_and_case) {
  EXPECT_THAT(tiny().encode("Caf\u00e9 CAF\u00c9 cafe\u0301"), ElementsAre(15, 16, 15, 16, 15, 16));
  EXPECT_THAT(tiny().encode("\u0130stanbul Istanbul"), ElementsAre(38, 38));
  EXPECT_THAT(tiny().encode("\u1e9e \u00df"), ElementsAre(35, 35));
  EXPECT_THAT(tiny().encode("\u2260 a\u0338="), ElementsAre(40, 48, 40));
  EXPECT_THAT(tiny().encode("\ud55c \ufb01lm $\u00bd"), ElementsAre(41, 42, 43, 44, 45, 46, 47));
}

TEST(WordPiece, sets_ideographs_and_punctuation_apart) {
  EXPECT_THAT(tiny().encode("xx\u6f22\u5b57x"), ElementsAre(50, 51, 32, 33, 50));
  EXPECT_THAT(tiny().encode("<br /><br />(the.film)"), ElementsAre(28, 29, 30, 31, 28, 29, 30, 31, 25, 5, 19, 6, 26));
}

TEST(WordPiece, drops_control_characters_and_splits_at_white_space) {
  EXPECT_THAT(tiny().encode(std::string("\tgood\u200b the\u00adfilm\u00a0bad\0\ufffd.", 28)),
              ElementsAre(13, 1, 14, 19));
  EXPECT_THAT(tiny().encode("x\u007fx \u0085x 2nd 20"), ElementsAre(50, 51, 50, 54, 52, 53));
}

TEST(WordPiece, takes_special_tokens_in_the_text_for_themselves) {
  EXPECT_THAT(tiny().encode("good[MASK]bad [mask] [UNK]"), ElementsAre(13, 4, 14, 22, 24, 23, 1));
  EXPECT_THAT(tiny().encode("[CLS][CLS[SEP]"), ElementsAre(2, 22, 1, 3));
}

TEST(WordPiece, knows_no_word_of_more_than_100_characters) {
  EXPECT_EQ(tiny().encode(std::string(100, 'a')).size(), 51u);
  EXPECT_THAT(tiny().encode(std::string(101, 'a')), ElementsAre(1));
  std::string accented;
  for (int i = 0; i < 100; ++i) accented += "\u00df";  // 200 bytes, 100 characters: unknown for its pieces alone
  EXPECT_THAT(WordPiece({"[PAD]", "[UNK]", "[CLS]", "[SEP]", accented}).encode(accented), ElementsAre(4));
}

TEST(WordPiece, stops_at_the_limit) {
  EXPECT_THAT(tiny().encode_review("unbelievable good", 4), ElementsAre(2, 9, 10, 3));
  EXPECT_THAT(tiny().encode_review("the [MASK] good", 4), ElementsAre(2, 5, 4, 3));
  EXPECT_THAT(tiny().encode_review("the", 2), ElementsAre(2, 3));
}

TEST(WordPiece, drops_bytes_that_are_not_utf8) {
  EXPECT_THAT(tiny().encode("fi\xfflm \xc3good \xed\xa0\x80"), ElementsAre(6, 13));
}

TEST(WordPiece, loads_its_content) {
  const TemporaryFolder folder;
  folder.write("vocab.txt", tiny().content());
  const WordPiece loaded = WordPiece::load(folder.path("vocab.txt"));
  EXPECT_EQ(loaded.size(), tiny().size());
  EXPECT_EQ(loaded.piece(10), "##believ");
  EXPECT_EQ(loaded.encode("The unbelievable film"), tiny().encode("The unbelievable film"));
  EXPECT_THAT((std::vector{loaded.padding_id(), loaded.unknown_id(), loaded.class_id(), loaded.separator_id()}),
              ElementsAre(0, 1, 2, 3));
}

TEST(WordPiece, loads_files_with_crlf_and_without_a_last_newline) {
  const TemporaryFolder folder;
  const auto path = folder.write("vocab.txt", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\nfilm");
  EXPECT_THAT(WordPiece::load(path).encode("film"), ElementsAre(4));
}

TEST(WordPiece, refuses_a_missing_vocabulary) {
  EXPECT_EQ(refusal([] { WordPiece::load("/nowhere/vocab.txt"); }),
            "/nowhere/vocab.txt: cannot open the vocabulary: No such file or directory");
}

TEST(WordPiece, refuses_a_folder_and_an_empty_file) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal([&] { WordPiece::load(folder.path()); }), HasSubstr("is a folder"));
  const auto empty = folder.write("vocab.txt", "");
  EXPECT_THAT(refusal([&] { WordPiece::load(empty); }), HasSubstr("vocab.txt: the vocabulary is empty"));
}

TEST(WordPiece, names_the_special_tokens_that_lack) {
  const TemporaryFolder folder;
  const auto path = folder.write("vocab.txt", "[PAD]\n[UNK]\nfilm\n");
  EXPECT_THAT(refusal([&] { WordPiece::load(path); }),
              HasSubstr("vocab.txt: a vocabulary of 3 entries that lacks [CLS], [SEP]"));
}

TEST(WordPiece, names_the_lines_of_an_entry_that_stands_twice) {
  const TemporaryFolder folder;
  const auto path = folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nfilm\n##s\nfilm\n");
  EXPECT_THAT(refusal([&] { WordPiece::load(path); }), HasSubstr("vocab.txt: line 7 repeats \"film\" of line 5"));
}

struct Digest {
  uint64_t hash = 14695981039346656037u;  // FNV-1a, 64 bits, over whole ids
  size_t count = 0;
  bool operator==(const Digest&) const = default;
};

void add(Digest& digest, uint64_t value) {
  digest.hash = (digest.hash ^ value) * 1099511628211u;
}

/// Of one review in `every`.
Digest digest_of(SampleReader& reviews, const WordPiece& tokenizer, int64_t every = 1) {
  Digest digest;
  int64_t place = 0;
  for (Sample review; reviews.next(review);) {
    if (place++ % every != 0) continue;
    const auto ids = tokenizer.encode(review.text);
    for (const int64_t id : ids) add(digest, static_cast<uint64_t>(id));
    add(digest, 0xffffffffu);  // the end of a review
    digest.count += ids.size();
  }
  return digest;
}

// Count and hash were computed over the ids that the Python package tokenizers 0.23.3 gives for the same reviews.
// (Those of each sixteenth are ours: the whole was equal.)
TEST(WordPiece, gives_the_reference_s_ids_for_all_real_reviews) {
  const WordPiece bert = WordPiece::load(real_data("bert-base-uncased/vocab.txt"));
  EXPECT_EQ(bert.size(), 30522);
  const std::string imdb = real_data("imdb");
  EXPECT_EQ(digest_of(*open_samples(imdb, Part::train), bert, 16), (Digest{0xe43b9d537d8fe783u, 496947}));
  if (adjoin::testing::kIsSanitized) return;
  EXPECT_EQ(digest_of(*open_samples(imdb, Part::train), bert), (Digest{0x01bd05ef1df2e708u, 7796081}));
  EXPECT_EQ(digest_of(*open_samples(imdb, Part::test), bert), (Digest{0xb6ca688f9ff8fc6cu, 7618178}));
}

const WordPiece kWords({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"});

TEST(EncodeReview, stands_between_class_and_separator) {
  EXPECT_THAT(kWords.encode_review("a b c", 16), ElementsAre(2, 4, 5, 6, 3));
  EXPECT_THAT(kWords.encode_review("", 16), ElementsAre(2, 3));
}

TEST(EncodeReview, is_cut_to_the_maximum_with_its_separator) {
  EXPECT_THAT(kWords.encode_review("a b c", 5), ElementsAre(2, 4, 5, 6, 3));
  EXPECT_THAT(kWords.encode_review("a b c", 4), ElementsAre(2, 4, 5, 3));
  EXPECT_THAT(kWords.encode_review("a b c", 2), ElementsAre(2, 3));
  EXPECT_THAT(refusal([] { kWords.encode_review("a", 1); }), HasSubstr("got a maximum of 1"));
}

}  // namespace
}  // namespace adjoin::data
