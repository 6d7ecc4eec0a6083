#include "adjoin/store/safetensors.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "adjoin/base/error.hpp"
#include "paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

using test::contents_of;
using test::message_of;
using test::put;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const at::ScalarType kTypes[] = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16,
                                 at::kLong,   at::kInt,   at::kByte, at::kBool};

at::Tensor counting(at::IntArrayRef shape, at::ScalarType dtype) {
  const int64_t count = c10::multiply_integers(shape);
  const at::Tensor numbers = at::arange(count, at::kLong).view(shape);
  return dtype == at::kBool ? numbers.remainder(2).to(dtype) : numbers.to(dtype);
}

std::map<std::string, at::Tensor> one_of_each_type() {
  std::map<std::string, at::Tensor> tensors;
  for (const at::ScalarType dtype : kTypes) tensors[c10::toString(dtype)] = counting({3, 5}, dtype);
  return tensors;
}

/// A file with this header, whatever it says, and this many bytes of data.
std::string file_of(const std::string& header, size_t data_bytes, uint64_t claimed_length = 0) {
  const uint64_t length = claimed_length ? claimed_length : header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(data_bytes, '\1');
}

std::string run_python(const TemporaryFolder& folder, const std::string& program) {
  put(folder / "program.py", program);
  const std::string command =
      std::string("cd '") + folder.path().string() + "' && '" ADJOIN_PYTHON "' program.py > printed 2>&1";
  const int status = std::system(command.c_str());
  return std::to_string(status) + " " + contents_of(folder / "printed");
}

TEST(Safetensors, gives_back_every_type_empty_tensors_scalars_and_metadata) {
  const TemporaryFolder folder;
  auto tensors = one_of_each_type();
  tensors["empty"] = at::empty({0, 7});
  tensors["scalar"] = at::scalar_tensor(2.5, at::kDouble);
  tensors["quote \" and \xc3\xa9"] = at::ones({1});
  write_safetensors(folder / "a.safetensors", tensors, {{"format", "pt"}});

  const SafetensorsFile file(folder / "a.safetensors");
  ASSERT_EQ(file.shapes().size(), tensors.size());
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.dtype(name), tensor.scalar_type()) << name;
    EXPECT_EQ(file.shape(name), tensor.sizes().vec()) << name;
    EXPECT_TRUE(at::equal(file.read(name), tensor)) << name;
  }
}

TEST(Safetensors, holds_no_tensors_at_all) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", std::map<std::string, at::Tensor>{});
  EXPECT_TRUE(SafetensorsFile(folder / "a").shapes().empty());
}

TEST(Safetensors, keeps_every_bit_of_special_numbers) {
  const TemporaryFolder folder;
  const at::Tensor bits = at::arange(-32768, 32768, at::kInt).to(at::kShort);
  const at::Tensor halves = bits.view(at::kHalf), brains = bits.view(at::kBFloat16);
  write_safetensors(folder / "a", {{"half", halves}, {"brain", brains}});
  const SafetensorsFile file(folder / "a");
  EXPECT_TRUE(at::equal(file.read("half").view(at::kShort), bits));
  EXPECT_TRUE(at::equal(file.read("brain").view(at::kShort), bits));
}

TEST(Safetensors, are_filled_in_any_order_by_parts_and_as_long_as_they_will_be_at_once) {
  const TemporaryFolder folder;
  const std::vector<TensorEntry> entries = {{"c", at::kFloat, {2, 3}}, {"a", at::kLong, {3}}, {"b", at::kByte, {1}}};
  make_safetensors(folder / "a", entries);
  const auto bytes = std::filesystem::file_size(folder / "a");
  {
    SafetensorsFilling first(folder / "a"), second(folder / "a");
    const at::Tensor c = counting({6}, at::kFloat), a = counting({3}, at::kLong), b = counting({1}, at::kByte);
    second.write("c", 4, c.data_ptr<float>() + 4, 2);
    first.write("b", 0, b.const_data_ptr(), 1);
    first.write("c", 0, c.const_data_ptr(), 4);
    second.write("a", 0, a.const_data_ptr(), 3);
    EXPECT_THROW(first.write("c", 5, c.const_data_ptr(), 2), InvalidArgument);
    EXPECT_THROW(first.write("d", 0, c.const_data_ptr(), 1), InvalidArgument);
  }
  EXPECT_EQ(std::filesystem::file_size(folder / "a"), bytes);
  for (const TensorEntry& entry : entries)
    EXPECT_TRUE(at::equal(SafetensorsFile(folder / "a").read(entry.name), counting(entry.shape, entry.dtype)));
}

TEST(Safetensors, writes_tensors_that_are_not_contiguous) {
  const TemporaryFolder folder;
  const at::Tensor transposed = counting({4, 6}, at::kFloat).t();
  write_safetensors(folder / "a", {{"x", transposed}});
  EXPECT_TRUE(at::equal(SafetensorsFile(folder / "a").read("x"), transposed));
}

TEST(Safetensors, refuse_two_tensors_of_one_name_or_a_type_without_a_name) {
  const TemporaryFolder folder;
  EXPECT_THROW(make_safetensors(folder / "a", {{"x", at::kFloat, {1}}, {"x", at::kFloat, {1}}}), InvalidArgument);
  EXPECT_THROW(make_safetensors(folder / "a", {{"__metadata__", at::kFloat, {1}}}), InvalidArgument);
  EXPECT_THROW(write_safetensors(folder / "a", {{"x", at::ones({1}, at::kComplexDouble)}}), InvalidArgument);
}

TEST(Safetensors, refuses_names_that_are_not_there) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", {{"x", at::ones({2, 3})}});
  const SafetensorsFile file(folder / "a");
  EXPECT_THAT(message_of<DamagedFile>([&] { file.read("y"); }), HasSubstr("/a: holds no tensor named y"));
}

TEST(Safetensors, is_read_by_python) {
  const TemporaryFolder folder;
  auto tensors = one_of_each_type();
  tensors["empty"] = at::empty({0, 7});
  tensors["scalar"] = at::scalar_tensor(2.5, at::kDouble);
  write_safetensors(folder / "a.safetensors", tensors, {{"made by", "a test"}});
  EXPECT_EQ(run_python(folder, R"(
import torch
from safetensors import safe_open
from safetensors.torch import load_file
t = load_file("a.safetensors")
want = torch.arange(15).view(3, 5)
for name, dtype in dict(Double=torch.float64, Float=torch.float32, Half=torch.float16, BFloat16=torch.bfloat16,
                        Long=torch.int64, Int=torch.int32, Byte=torch.uint8).items():
    assert t[name].dtype == dtype and torch.equal(t[name], want.to(dtype)), name
assert torch.equal(t["Bool"], want % 2 == 1)
assert t["empty"].shape == (0, 7) and t["scalar"].shape == () and t["scalar"].item() == 2.5
with safe_open("a.safetensors", "pt") as f: assert f.metadata() == {"made by": "a test"}
print("same", len(t)))"),
            "0 same 10\n");
}

TEST(Safetensors, reads_what_python_writes) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_python(folder, R"(
import torch
from safetensors.torch import save_file
types = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
t = {f"t{i}": torch.arange(15).view(3, 5).to(d) for i, d in enumerate(types)}
save_file(t | {"flag": torch.tensor([True, False]), "empty": torch.zeros(0, 7), "scalar": torch.tensor(2.5)},
          "a.safetensors", {"format": "pt"}))"),
            "0 ");
  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_EQ(file.shapes().size(), 10u);
  for (int i = 0; i < 7; ++i)
    EXPECT_TRUE(at::equal(file.read("t" + std::to_string(i)), counting({3, 5}, kTypes[i]))) << i;
  EXPECT_TRUE(at::equal(file.read("flag"), at::tensor({1, 0}).to(at::kBool)));
  EXPECT_EQ(file.read("empty").sizes(), (at::IntArrayRef{0, 7}));
  EXPECT_EQ(file.read("scalar").item<float>(), 2.5f);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(Safetensors, refuses_a_file_cut_at_any_byte) {
  const TemporaryFolder folder;
  write_safetensors(folder / "whole", one_of_each_type(), {{"a", "b"}});
  const std::string whole = contents_of(folder / "whole");
  for (size_t size = 0; size < whole.size(); ++size) {
    put(folder / "cut", whole.substr(0, size));
    EXPECT_THROW(SafetensorsFile(folder / "cut"), InvalidArgument) << "cut to " << size << " of " << whole.size();
  }
  put(folder / "cut", whole + "x");
  EXPECT_THROW(SafetensorsFile(folder / "cut"), InvalidArgument);
}

TEST(Safetensors, either_refuses_a_damaged_header_or_still_reads_exactly_the_data) {
  const TemporaryFolder folder;
  write_safetensors(folder / "whole", one_of_each_type(), {{"a", "b"}});
  const std::string whole = contents_of(folder / "whole");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data(), sizeof header_bytes);
  const int64_t data_bytes = static_cast<int64_t>(whole.size() - sizeof header_bytes - header_bytes);

  std::mt19937 random(7);
  int refused = 0;
  constexpr int kTrials = 5000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::string damaged = whole;
    for (unsigned flips = 1 + random() % 3; flips > 0; --flips)
      damaged[random() % (sizeof header_bytes + header_bytes)] = static_cast<char>(random());
    put(folder / "damaged", damaged);
    try {
      const SafetensorsFile file(folder / "damaged");
      int64_t read = 0;
      for (const auto& [name, shape] : file.shapes()) read += static_cast<int64_t>(file.read(name).nbytes());
      EXPECT_EQ(read, data_bytes) << "trial " << trial;
    } catch (const InvalidArgument& error) {
      ++refused;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(refused, kTrials / 2);  // most bytes of a header carry meaning; letters of names do not
}

TEST(Safetensors, says_what_is_wrong_in_one_line_that_names_the_file) {
  const TemporaryFolder folder;
  const std::string path = (folder / "bad").string();
  const std::string good = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const struct {
    std::string contents, expected;
  } cases[] = {
      {"", "too short"},
      {file_of(good, 8, uint64_t{1} << 62), "claims a header of 4611686018427387904 bytes"},
      {file_of(good, 8, good.size() + 9), "claims a header"},
      {file_of("[]", 0), "does not begin with {"},
      {file_of("{", 0), "not JSON"},
      {file_of("{}x", 0), "not JSON"},
      {file_of(std::string("{}\0\0", 4), 0), "zero byte"},
      {file_of("{\"\xff\":1}", 0), "not JSON"},
      {file_of("{}", 3), "3 bytes after the last tensor"},
      {file_of(R"({"x":1})", 0), "\"x\" is a number"},
      {file_of(R"({"x":[]})", 0), "\"x\" is a list"},
      {file_of(R"({"__metadata__":{"a":1}})", 0), "metadata \"a\" is a number"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "two metadata"},
      {file_of(R"({"x":{"shape":[2],"data_offsets":[0,8]}})", 8), "no dtype"},
      {file_of(R"({"x":{"dtype":"F32","data_offsets":[0,8]}})", 8), "no shape"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2]}})", 8), "no data_offsets"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":[]}})", 8), "unknown key \"more\""},
      {file_of(R"({"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "twice"},
      {file_of(R"({"x":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8), "\"F99\", expected one of"},
      {file_of(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "negative"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8), "not an integer"},
      {file_of(R"({"x":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8), "a list"},
      {file_of(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,8]}})", 8), "2^63"},
      {file_of(R"({"x":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}})", 0), "2^63"},
      {file_of(R"({"x":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8), "2^63"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", 8), "two numbers"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "do not span"},
      {file_of(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "do not span the 12 bytes"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12), "a hole"},
      {file_of(R"({"x":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}})", 8), "truncated"},
      {file_of(
           R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
           6),
       "an overlap"},
      {file_of(
           R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"x":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
           8),
       "two entries"},
      {file_of("{\"x\":" + std::string(1 << 20, '['), 0), "is a list"},
  };
  for (const auto& [contents, expected] : cases) {
    put(path, contents);
    EXPECT_THAT(message_of<InvalidArgument>([&] { SafetensorsFile file(path); }),
                AllOf(StartsWith(path + ": "), HasSubstr(expected)))
        << contents.substr(0, 200);
  }
  put(path, file_of(good, 8));
  EXPECT_EQ(SafetensorsFile(path).shapes(), (std::map<std::string, std::vector<int64_t>>{{"x", {2}}}));
}

TEST(Safetensors, refuses_a_boolean_that_is_neither_0_nor_1) {
  const TemporaryFolder folder;
  put(folder / "bad", file_of(R"({"x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 0) + "\1\2");
  const SafetensorsFile file(folder / "bad");
  EXPECT_THROW(file.read("x"), InvalidArgument);
}

TEST(Safetensors, names_a_file_that_is_missing_or_a_folder) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<InvalidArgument>([&] { SafetensorsFile file(folder / "none"); }),
              HasSubstr("/none: cannot be opened: No such file or directory"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { SafetensorsFile file(folder.path()); }),
              HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace adjoin::train
