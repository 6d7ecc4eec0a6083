#include "adjoin/data/sequences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "adjoin/base/hash.hpp"
#include "adjoin/data/sampler.hpp"
#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kEnd = 9;

DocumentTokens tokens_of(const std::vector<int64_t>& tokens) {
  TokenStoreBuilder builder(10);
  builder.add(tokens, 0);
  return {.name = "a.tokens",
          .tokens = builder.finish(),
          .counts = {.documents = 1, .bytes = 1, .tokens = std::ssize(tokens)},
          .words = 10,
          .end_of_document = kEnd};
}

TEST(Sequences, are_runs_of_tokens_whose_targets_follow_them_within_their_document) {
  const Sequences sequences(tokens_of({1, 2, 3, kEnd, 4, kEnd, 5, 6, 7, 8, kEnd}), 6, Part::train);
  ASSERT_EQ(sequences.size(), 2);
  const Sequence first = sequences[0], last = sequences[1];
  EXPECT_THAT(first.ids, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(first.targets, ElementsAre(2, 3, kEnd, kEnd));
  EXPECT_THAT(first.lengths, ElementsAre(3, 1));
  EXPECT_THAT(last.ids, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(last.targets, ElementsAre(6, 7, 8, kEnd));
  EXPECT_THAT(last.lengths, ElementsAre(4));
}

TEST(Sequences, of_a_long_document_predict_each_of_its_tokens_but_the_first_once) {
  std::vector<int64_t> tokens(100);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i % 9);
  tokens.push_back(kEnd);
  for (const int64_t length : {2, 7, 50, 99, 100}) {
    const Sequences sequences(tokens_of(tokens), length, Part::train);
    std::vector<int64_t> ids, targets;
    for (int64_t i = 0; i < sequences.size(); ++i) {
      const Sequence sequence = sequences[i];
      EXPECT_THAT(sequence.lengths, ElementsAre(std::ssize(sequence.ids)));
      EXPECT_LE(std::ssize(sequence.ids), length);
      ids.insert(ids.end(), sequence.ids.begin(), sequence.ids.end());
      targets.insert(targets.end(), sequence.targets.begin(), sequence.targets.end());
    }
    EXPECT_EQ(ids, std::vector(tokens.begin(), tokens.end() - 1)) << length;
    EXPECT_EQ(targets, std::vector(tokens.begin() + 1, tokens.end())) << length;
  }
}

TEST(Sequences, hold_no_empty_piece_where_a_document_ends_at_the_border_of_a_sequence) {
  const Sequences sequences(tokens_of({1, 2, 3, kEnd, 4, 5, kEnd}), 4, Part::train);
  EXPECT_THAT(sequences[0].lengths, ElementsAre(3));
  EXPECT_THAT(sequences[1].lengths, ElementsAre(2));
  const Sequences before(tokens_of({1, 2, 3, kEnd, 4, 5, kEnd}), 3, Part::train);
  EXPECT_THAT(before[0].targets, ElementsAre(2, 3, kEnd));
  EXPECT_THAT(before[1].ids, ElementsAre(4, 5));
}

TEST(Sequences, are_refused_where_a_training_part_fills_none) {
  const auto tokens = tokens_of({1, 2, 3, kEnd});
  EXPECT_THAT(refusal([&] { Sequences(tokens, 4, Part::train); }),
              HasSubstr("a.tokens: has 4 tokens, but a sequence of 4 and the token after it need 5"));
  EXPECT_EQ(Sequences(tokens, 3, Part::train).size(), 1);
  EXPECT_THAT(Sequences(tokens, 100, Part::test)[0].ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(refusal([&] { Sequences(tokens_of({kEnd}), 4, Part::test); }), HasSubstr("has 1 tokens"));
  EXPECT_THAT(refusal([&] { Sequences(tokens, 1, Part::train); }), HasSubstr("at least 2 tokens, got a length of 1"));
}

TEST(Sequences, refuse_a_token_that_is_not_of_the_vocabulary_when_they_are_taken) {
  const Sequences sequences(tokens_of({1, 2, 3, 4, 5, 10, 6, kEnd}), 3, Part::train);
  EXPECT_THAT(sequences[0].ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(refusal([&] { sequences[1]; }), HasSubstr("a.tokens: token 5 is 10, the vocabulary has 10"));
  EXPECT_THAT(refusal([&] { sequences[3]; }), HasSubstr("no sequence 3 among 3"));
  EXPECT_THAT(refusal([&] { sequences[-1]; }), HasSubstr("no sequence -1"));
}

/// A token file of documents of bytes whose ids, but for some at its ends, are a hole of the disk.
std::string sparse_file(const TemporaryFolder& folder, int64_t tokens) {
  const std::string text = R"({"vocabulary":)" + std::to_string(byte_vocabulary()->hash()) +
                           R"(,"documents":2,"bytes":)" + std::to_string(tokens - 2) + "}";
  std::array<uint64_t, 8> header{};  // as adjoin/data/token_store.cpp describes it
  std::copy_n("adjtoken", 8, reinterpret_cast<char*>(header.data()));
  header[1] = 1, header[2] = 2, header[3] = static_cast<uint64_t>(tokens), header[4] = 1, header[5] = text.size();
  header[6] = hash_of(text), header[7] = hash_of(std::string_view(reinterpret_cast<const char*>(header.data()), 56));
  const int64_t begins[] = {0, tokens};
  const int32_t label = 0;
  const std::string path = folder.path("sparse.tokens");
  std::ofstream file(path, std::ios::binary);
  const auto put = [&](int64_t place, const void* data, size_t bytes) {
    file.seekp(place);
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  };
  put(0, header.data(), 64);
  const uint16_t end = 256, word = 119;
  put(64 + 2 * 1'500'000'000LL, &end, 2), put(64 + 2 * (tokens - 2), &word, 2), put(64 + 2 * (tokens - 1), &end, 2);
  const int64_t after = 64 + 2 * tokens;
  put(after, begins, 16), put(after + 16, &label, 4), put(after + 20, text.data(), text.size());
  return path;
}

/// The most memory that this process has had since the last call, in bytes.
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  int64_t kilobytes = -1;
  for (std::string word; status >> word;)
    if (word == "VmHWM:") status >> kilobytes;
  std::ofstream("/proc/self/clear_refs") << "5";
  return kilobytes * 1000;
}

TEST(Sequences, of_4_gigabytes_take_at_most_16_bytes_of_memory_each) {
  const TemporaryFolder folder;
  const int64_t length = 1024, tokens = int64_t{1} << 31;
  const std::string path = sparse_file(folder, tokens);
  ASSERT_GE(std::filesystem::file_size(path), size_t{1} << 32);
  peak_memory();
  const int64_t before = peak_memory();
  const Sequences sequences(map_document_tokens(path, *byte_vocabulary()), length, Part::train);
  ASSERT_EQ(sequences.size(), tokens / length);
  Sampler sampler({.samples = sequences.size(), .batch = 8, .seed = 1, .bucket_batches = 100});
  int64_t taken = 0;
  for (int step = 0; step < 500; ++step)
    for (const int64_t sequence : sampler.next()) taken += std::ssize(sequences[sequence].ids);
  const Sequence last = sequences[sequences.size() - 1], middle = sequences[1'500'000'000 / length];
  [[maybe_unused]] const int64_t grown = peak_memory() - before;
  EXPECT_GE(taken, 4'000 * length - 2);
  EXPECT_EQ(last.ids.back(), 119);
  EXPECT_EQ(last.targets.back(), 256);
  EXPECT_EQ(middle.lengths.size(), 2u);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep what was freed, and shadows
  EXPECT_LT(grown, 16 * sequences.size());
#endif
}

}  // namespace
}  // namespace adjoin::data
