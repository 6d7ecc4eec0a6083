#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/train/saved_model.hpp"
#include "tests/data/tokenizer/small_tokenizers.hpp"
#include "tests/support/mutations.hpp"
#include "tests/support/pretrained_models.hpp"
#include "tests/support/scale.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using namespace test;

/// A case's folder, with a small tokenizer where it has none.
void copy_case(const std::string& name, const fs::path& to) {
  const auto& cases = pretrained_cases();
  fs::copy(std::ranges::find(cases, name, &PretrainedCase::name)->model, to, fs::copy_options::recursive);
  if (!fs::exists(to / "tokenizer.json")) put(to / "tokenizer.json", data::small_decoder().dump());
}

/// Opens a folder and reads its weights.
void open_wholly(const fs::path& folder) {
  const SavedModel saved = open_model({folder, 0});
  load_trainer(saved, configured(saved, {}), Communicator());
}

/// Opens a folder with `count` mutations of one of its files. Each must be refused as the caller's mistake, or be a model, soon and
/// in little memory.
void expect_refused_or_opened(const fs::path& folder, const std::string& file, int64_t count) {
  SCOPED_TRACE(folder.filename().string() + "/" + file);
  constexpr double kLongest = 2;  // seconds of a core's time
  constexpr int64_t kMostBytes = 128 << 20;
  open_wholly(folder);
  const std::string sound = contents_of(folder / file);
  const int64_t bytes_before = most_bytes_so_far();
  int refused = 0;
  for (int64_t seed = 0; seed < count; ++seed) {
    const std::string changed = Mutations(static_cast<uint64_t>(seed)).of(sound);
    put(folder / file, changed);
    const std::clock_t begin = std::clock();
    try {
      open_wholly(folder);
    } catch (const InvalidArgument& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()), "");
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what() << "\n" << changed;
    }
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kLongest) << "seed " << seed << "\n"
                                                                                    << changed;
    if (::testing::Test::HasFailure()) break;
  }
  put(folder / file, sound);
  EXPECT_LT(most_bytes_so_far() - bytes_before, kMostBytes);
  EXPECT_GT(refused, count / 4);
  EXPECT_LT(refused, count) << "some change nothing that matters";
}

TEST(Mutations, of_a_config_are_refused_or_describe_a_model) {
  const TemporaryFolder folder;
  for (const char* name : {"bert-words", "gpt2-bytes", "llama-llama3", "mistral", "qwen2-4"}) {
    copy_case(name, folder / name);
    expect_refused_or_opened(folder / name, "config.json", 12 * test::scale());
  }
}

TEST(Mutations, of_an_index_are_refused_or_find_the_weights) {
  const TemporaryFolder folder;
  copy_case("qwen2-sharded", folder / "sharded");
  expect_refused_or_opened(folder / "sharded", "model.safetensors.index.json", 250 * test::scale());
}

}  // namespace
}  // namespace adjoin::train
