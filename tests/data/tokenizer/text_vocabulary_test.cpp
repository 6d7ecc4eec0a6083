#include "adjoin/data/tokenizer/text_vocabulary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adjoin/data/tokenizer/subword_vocabulary.hpp"
#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ByteVocabulary, has_an_id_for_each_byte_and_one_for_the_end) {
  const auto bytes = byte_vocabulary();
  EXPECT_EQ(bytes->size(), 257);
  EXPECT_EQ(bytes->end_of_document(), 256);
  EXPECT_EQ(bytes->bytes_of(256), "");
  EXPECT_THAT(bytes->encode(std::string_view("a\0\xff", 3)), ElementsAre(97, 0, 255));
}

TEST(ByteVocabulary, gives_back_what_is_not_utf8) {
  const std::string text = "caf\xc3\xa9 \xc3( \xff\xfe\r\n";
  EXPECT_EQ(byte_vocabulary()->decode(byte_vocabulary()->encode(text)), text);
}

TEST(TextVocabulary, appends_the_ids_of_a_text_to_others) {
  std::vector<int64_t> ids{7};
  byte_vocabulary()->encode("ab", ids);
  EXPECT_THAT(ids, ElementsAre(7, 97, 98));
}

TEST(TextVocabulary, refuses_what_is_no_id) {
  for (const int64_t id : {int64_t{-1}, int64_t{257}})
    EXPECT_THAT(refusal([&] { byte_vocabulary()->bytes_of(id); }),
                HasSubstr("no token " + std::to_string(id) + " in a vocabulary of 257"));
}

TEST(TextVocabulary, is_loaded_as_it_was_saved) {
  const TemporaryFolder folder;
  byte_vocabulary()->save(folder.path("a"));
  const auto loaded = load_text_vocabulary(folder.path("a"));
  EXPECT_EQ(loaded->size(), 257);
  EXPECT_EQ(loaded->hash(), byte_vocabulary()->hash());
}

TEST(TextVocabulary, refuses_a_file_that_is_none) {
  const TemporaryFolder folder;
  for (const char* content : {"", "[PAD]\n[UNK]\nthe\n", "adjoin: the vocabulary of bits\n"})
    EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.write("a", content)); }),
                HasSubstr("a: is not a vocabulary of a language model"));
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path("b")); }),
              HasSubstr("b: cannot open the vocabulary: No such file"));
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }), HasSubstr("is a folder"));
}

}  // namespace
}  // namespace adjoin::data
