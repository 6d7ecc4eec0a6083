#include "adjoin/store/npy.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "adjoin/base/error.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

using ::testing::HasSubstr;

/// A file of version 1 with this header and these bytes.
std::string npy_file(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
}

TEST(Npy, reads_what_it_writes) {
  const test::TemporaryFolder folder;
  const at::Tensor x = at::arange(24).view({2, 3, 4});
  for (const auto type : {at::kBool, at::kByte, at::kInt, at::kLong, at::kHalf, at::kFloat, at::kDouble}) {
    write_npy(folder / "x.npy", x.transpose(0, 2).to(type));
    const at::Tensor read = read_npy(folder / "x.npy");
    EXPECT_EQ(read.scalar_type(), type);
    EXPECT_TRUE(at::equal(read, x.transpose(0, 2).to(type)));
  }
  for (const at::Tensor& other : {at::tensor({1.5}), at::zeros({0, 3}), at::scalar_tensor(2.5)}) {
    write_npy(folder / "x.npy", other);
    EXPECT_TRUE(at::equal(read_npy(folder / "x.npy"), other));
  }
}

TEST(Npy, reads_fortran_order) {
  const test::TemporaryFolder folder;
  test::put(folder / "x.npy",
            npy_file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", {1, 4, 2, 5, 3, 6}));
  EXPECT_TRUE(at::equal(read_npy(folder / "x.npy"), at::tensor({1, 2, 3, 4, 5, 6}, at::kByte).view({2, 3})));
}

TEST(Npy, refuses_other_files_in_one_line) {
  const test::TemporaryFolder folder;
  const auto expect = [&](const std::string& content, const char* what) {
    test::put(folder / "x.npy", content);
    const std::string refused = testing::thrown_by<InvalidArgument>([&] { read_npy(folder / "x.npy"); });
    EXPECT_THAT(refused, HasSubstr("x.npy: "));
    EXPECT_THAT(refused, HasSubstr(what));
  };
  const std::string rest = ", 'fortran_order': False, 'shape': (3,), }";
  expect("", "is no .npy file");
  expect("some other text", "is no .npy file");
  expect(std::string("\x93NUMPY\x01\x00\xff\xff", 10), "cut short");
  expect(npy_file("{'descr': '|O'" + rest, "abc"), "another form");
  expect(npy_file("{'descr': '>f4'" + rest, "abcdabcdabcd"), "'s type >f4");
  expect(npy_file("{'descr': '|u1'" + rest, "ab"), "as its shape (3) needs, got 2");
  expect(npy_file("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", "ab"),
         "needs, got 2");
}

}  // namespace
}  // namespace adjoin::train
