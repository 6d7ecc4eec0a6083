#include "examples/support/idx.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "tests/data/data_files.hpp"

namespace adjoin::example {
namespace {

using data::real_data;
using data::refusal;
using data::TemporaryFolder;
using ::testing::EndsWith;
using ::testing::HasSubstr;

/// Four bytes, the highest first.
std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift & 0xff));
  return bytes;
}

std::string idx(const std::vector<uint32_t>& dims, const std::string& elements, uint32_t type = 8) {
  std::string content = big_endian(type << 8 | static_cast<uint32_t>(dims.size()));
  for (const uint32_t dim : dims) content += big_endian(dim);
  return content + elements;
}

std::string refusal_of_idx(const std::string& content) {
  const TemporaryFolder folder;
  return refusal([&] { load_idx(folder.write("a-idx", content)); });
}

TEST(Idx, reads_arrays_of_any_dims_plain_or_compressed) {
  const TemporaryFolder folder;
  const std::string content = idx({2, 1, 3}, std::string("\0\1\2\xfd\xfe\xff", 6));
  const at::Tensor expected = at::tensor({0, 1, 2, 253, 254, 255}, at::kByte).view({2, 1, 3});
  EXPECT_TRUE(load_idx(folder.write("a", content)).equal(expected));
  EXPECT_TRUE(load_idx(folder.write_gzipped("a.gz", content)).equal(expected));
  EXPECT_TRUE(load_idx(folder.write("one", idx({}, "\7"))).equal(at::full({}, 7, at::kByte)));
  EXPECT_EQ(load_idx(folder.write("none", idx({0, 28}, ""))).sizes(), (at::IntArrayRef{0, 28}));
}

TEST(Idx, reads_what_is_longer_than_a_chunk) {
  const TemporaryFolder folder;
  std::string elements;
  for (int i = 0; i < 3000000; ++i) elements.push_back(static_cast<char>(i % 251));
  const at::Tensor read = load_idx(folder.write_gzipped("a.gz", idx({3000000}, elements)));
  EXPECT_TRUE(read.equal(at::arange(3000000).remainder(251).to(at::kByte)));
}

TEST(Idx, refuses_what_is_no_array_of_bytes) {
  EXPECT_THAT(refusal_of_idx("ab"), EndsWith("a-idx: expected a header of IDX, got a file that is too short"));
  EXPECT_THAT(refusal_of_idx("text, and more"),
              EndsWith("a-idx: is not an IDX file: it does not begin with two zeros"));
  EXPECT_THAT(refusal_of_idx(idx({2}, "12345678", 0x0d)),
              EndsWith("a-idx: expected unsigned bytes (type 8), got type 13"));
  EXPECT_THAT(refusal_of_idx(idx({2, 3}, "12345")), EndsWith("a-idx: expected 6 bytes behind the header, got 5"));
  EXPECT_THAT(refusal_of_idx(idx({2, 3}, "1234567")), EndsWith("a-idx: expected 6 bytes behind the header, got more"));
  EXPECT_THAT(refusal_of_idx(idx({0xffffffff, 0xffffffff, 0xffffffff}, "")), EndsWith("a-idx: its dims are too large"));
}

TEST(Idx, allocates_nothing_on_the_word_of_a_header) {
  EXPECT_THAT(refusal_of_idx(idx({0xffffffff, 0x7fffffff}, "12")), HasSubstr("behind the header, got 2"));
}

TEST(Idx, refuses_a_file_that_is_damaged_or_not_there) {
  const TemporaryFolder folder;
  const std::string path = folder.write_gzipped("a.gz", idx({2000}, std::string(2000, 'x')));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 9);
  EXPECT_THAT(refusal([&] { load_idx(path); }), HasSubstr("a.gz: the gzip stream"));
  EXPECT_THAT(refusal([&] { load_idx(folder.path("missing")); }),
              EndsWith("missing: cannot open: No such file or directory"));
  EXPECT_THAT(refusal([&] { load_idx(folder.path()); }), EndsWith("is a folder; expected an IDX file"));
}

TEST(Idx, names_a_damaged_file_once) {
  const TemporaryFolder folder;
  const std::string path = folder.write_gzipped("a.gz", idx({2000}, std::string(2000, 'x')));
  std::string bytes = test::contents_of(path);
  bytes[bytes.size() - 8] ^= 1;  // the checksum (RFC 1952)
  folder.write("a.gz", bytes);
  EXPECT_EQ(refusal([&] { load_idx(path); }), path + ": the gzip stream is damaged: incorrect data check");
}

TEST(Idx, reads_no_pipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { load_idx(folder.path("pipe")); }),
              EndsWith("pipe: expected an IDX file, this is not a file"));
}

TEST(Mnist, tells_why_a_folder_or_a_file_cannot_be_reached) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.path("loop"));
  const auto failure = [](const std::string& path) { return test::message_of<IoError>([&] { load_mnist(path); }); };
  const std::string reason = "/t10k-images-idx3-ubyte: Too many levels of symbolic links";
  EXPECT_EQ(failure(folder.path("loop")), folder.path("loop") + reason);
  std::filesystem::create_symlink("t10k-images-idx3-ubyte", folder.path("t10k-images-idx3-ubyte"));
  EXPECT_EQ(failure(folder.path()), folder.path() + reason);
}

TEST(Mnist, has_ten_thousand_digits) {
  const LabelledPictures data = load_mnist(real_data("mnist"));
  EXPECT_EQ(data.pictures.sizes(), (at::IntArrayRef{10000, 28, 28}));
  // How often each digit is among the 10,000 of the test set, as LeCun et al. publish it.
  EXPECT_TRUE(at::bincount(data.labels, {}, 10)
                  .equal(at::tensor({980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}, at::kLong)));
}

TEST(Mnist, refuses_labels_that_do_not_belong_to_the_pictures) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal([&] { load_mnist(folder.path()); }),
              EndsWith("expected a file t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz, there is none"));
  folder.write("t10k-images-idx3-ubyte", idx({2, 1, 1}, "ab"));
  folder.write("t10k-labels-idx1-ubyte", idx({1}, "\1"));
  EXPECT_THAT(refusal([&] { load_mnist(folder.path()); }), EndsWith("2 pictures and 1 labels"));
  folder.write("t10k-labels-idx1-ubyte", idx({2}, "\1\x0a"));
  EXPECT_THAT(refusal([&] { load_mnist(folder.path()); }), EndsWith("expected labels from 0 to 9, got 10"));
}

}  // namespace
}  // namespace adjoin::example
