#include "adjoin/data/token_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <optional>
#include <string>

#include "adjoin/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
using ::testing::HasSubstr;

/// A cache of this test's own, and an environment that is as it was at the end.
class TokenCache : public ::testing::Test {
 protected:
  TokenCache() { set("XDG_CACHE_HOME", folder_.path().string()); }
  ~TokenCache() override {
    restore("XDG_CACHE_HOME", cache_);
    restore("HOME", home_);
  }

  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

  static TokenStore tokens() {
    TokenStoreBuilder builder(100);
    builder.add(std::vector<int64_t>{2, 50, 3}, 1);
    return builder.finish();
  }

  test::TemporaryFolder folder_;

 private:
  using Value = std::optional<std::string>;
  static Value value_of(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? Value() : Value(value);
  }
  static void restore(const char* name, const Value& value) {
    value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
  }

  Value cache_ = value_of("XDG_CACHE_HOME"), home_ = value_of("HOME");
};

TEST_F(TokenCache, lies_where_the_environment_says) {
  EXPECT_EQ(cache_folder(), folder_ / "adjoin");
  ::unsetenv("XDG_CACHE_HOME");
  set("HOME", "/home/ada");
  EXPECT_EQ(cache_folder(), "/home/ada/.cache/adjoin");
  set("XDG_CACHE_HOME", "relative");  // which the base directory specification says to ignore
  EXPECT_EQ(cache_folder(), "/home/ada/.cache/adjoin");
  ::unsetenv("HOME");
  EXPECT_EQ(cache_folder(), std::nullopt);
}

TEST_F(TokenCache, tells_a_text_in_one_class_from_the_same_text_in_another) {
  for (const char* file : {"a/1.txt", "b/2.txt", "b/3.txt"}) {
    fs::create_directories((folder_ / "data" / file).parent_path());
    test::put(folder_ / "data" / file, "text");
  }
  const std::string data = (folder_ / "data").string();
  const OrderedJson before = identity_of(data, Part::train);
  EXPECT_EQ(identity_of(data, Part::train), before);
  fs::rename(folder_ / "data/b/2.txt", folder_ / "data/a/2.txt");  // the files' names, times and order stay
  const OrderedJson moved = identity_of(data, Part::train);
  EXPECT_NE(moved, before);
  fs::rename(folder_ / "data/b", folder_ / "data/c");
  EXPECT_NE(identity_of(data, Part::train), moved);
}

TEST_F(TokenCache, gives_what_was_kept_for_the_same_request_alone) {
  const OrderedJson request = {{"files", "a"}, {"sequence", 32}};
  EXPECT_FALSE(find_tokens(request).has_value());
  EXPECT_FALSE(fs::exists(folder_ / "adjoin"));
  keep_tokens(request, {{"classes", {"x", "y"}}}, tokens(), 100);
  const auto found = find_tokens(request);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tokens.ids(0), (std::vector<int64_t>{2, 50, 3}));
  EXPECT_EQ(found->about.at("classes"), (OrderedJson{"x", "y"}));
  EXPECT_FALSE(find_tokens({{"files", "a"}, {"sequence", 33}}).has_value());
  EXPECT_FALSE(find_tokens(OrderedJson()).has_value());
}

TEST_F(TokenCache, does_not_trust_a_file_that_is_damaged_or_of_another_request) {
  const OrderedJson request = {{"files", "a"}}, other = {{"files", "b"}};
  keep_tokens(request, {}, tokens(), 100);
  const fs::path file = fs::directory_iterator(folder_ / "adjoin")->path();
  const std::string whole = test::contents_of(file);
  keep_tokens(other, {}, tokens(), 100);
  for (const auto& entry : fs::directory_iterator(folder_ / "adjoin")) test::put(entry.path(), whole);
  EXPECT_TRUE(find_tokens(request).has_value());
  EXPECT_FALSE(find_tokens(other).has_value());
  test::put(file, whole.substr(0, whole.size() - 1));
  EXPECT_FALSE(find_tokens(request).has_value());
  test::put(file, "");
  EXPECT_FALSE(find_tokens(request).has_value());
}

TEST_F(TokenCache, that_cannot_be_written_says_why) {
  test::put(folder_ / "adjoin", "a file");
  EXPECT_THAT(test::message_of<IoError>([&] {
                keep_tokens({{"files", "a"}}, {}, tokens(), 100);
              }),
              HasSubstr("adjoin"));
}

TEST_F(TokenCache, tells_data_by_place_size_and_time) {
  const fs::path file = folder_ / "test.csv";
  test::put(file, "text,label\na,1\n");
  const auto identity = [](const fs::path& path) { return identity_of(path.string(), Part::test); };
  const OrderedJson before = identity(file);
  EXPECT_EQ(identity(folder_.path()), before);
  EXPECT_EQ(before.at("files"), 1);

  fs::copy_file(file, folder_ / "copy.csv");
  EXPECT_NE(identity(folder_ / "copy.csv"), before);
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::nanoseconds(1000));
  EXPECT_NE(identity(file), before);
}

}  // namespace
}  // namespace adjoin::data
