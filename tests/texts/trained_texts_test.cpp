#include "adjoin/texts/trained_texts.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

using test::put;
using test::TemporaryFolder;

std::string content(const std::filesystem::path& path) {
  return content_of(path.string(), data::Part::train, /*is_decoder=*/true);
}

TEST(TrainedTexts, have_the_same_content_wherever_they_lie) {
  const TemporaryFolder folder;
  put(folder / "a.txt", "one\n\ntwo\n");
  put(folder / "b.txt", "one\n\ntwo\n");
  for (const char* copy : {"x", "y"}) {
    std::filesystem::create_directory(folder / copy);
    put(folder / copy / "a.txt", "one");
    put(folder / copy / "b.txt", "two");
  }
  EXPECT_EQ(content(folder / "a.txt"), content(folder / "b.txt"));
  EXPECT_EQ(content(folder / "x"), content(folder / "y"));
  EXPECT_EQ(content("sample"), "sample");
  EXPECT_EQ(content(folder / "nowhere"), "");
}

TEST(TrainedTexts, have_another_content_after_any_change) {
  const TemporaryFolder folder;
  put(folder / "a.txt", "one");
  put(folder / "b.txt", "two");
  const std::string before = content(folder.path());
  put(folder / "b.txt", "twO");
  EXPECT_NE(content(folder.path()), before);
  put(folder / "a.txt", "onet");  // the same bytes, differently divided
  put(folder / "b.txt", "wo");
  EXPECT_NE(content(folder.path()), before);
  put(folder / "a.txt", "one");
  put(folder / "b.txt", "two");
  EXPECT_EQ(content(folder.path()), before);
  put(folder / "c.txt", "");
  EXPECT_NE(content(folder.path()), before);
}

TEST(TrainedTexts, of_many_bytes_are_distinguished_by_some_of_them) {
  const TemporaryFolder folder;
  std::string ascending, descending;
  for (int i = 1'000'000; i < 3'500'000; ++i) {
    ascending += std::to_string(i) + "\n";
    descending += std::to_string(4'499'999 - i) + "\n";
  }
  put(folder / "a.txt", ascending);
  put(folder / "b.txt", descending);
  EXPECT_NE(content(folder / "a.txt"), content(folder / "b.txt"));
  put(folder / "b.txt", ascending);
  EXPECT_EQ(content(folder / "a.txt"), content(folder / "b.txt"));
}

TEST(TrainedTexts, are_kept_in_a_file) {
  EXPECT_TRUE(read_texts_file("").empty());
  EXPECT_TRUE(read_texts_file("[1, 2]").empty());
  Configuration c = configuration_of("gpt-tiny");
  c.data = "sample";
  EXPECT_EQ(read_texts_file(texts_file_of(c)), std::vector<LearnedTexts>{learned_texts("sample", "", true)});
}

}  // namespace
}  // namespace adjoin::train
