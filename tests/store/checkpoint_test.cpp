#include "adjoin/store/checkpoint.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <cmath>
#include <fstream>

#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/store/safetensors.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/odd_memory.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;
using test::contents_of;
using ::testing::HasSubstr;

/// A weight that two axes cut, one that nothing cuts, and two buffers, one of them of integers.
struct Layers : nn::ShardedModule {
  Layers(const Grid& grid, const std::string& rows, const std::string& columns) {
    const auto parts = [&](const std::string& axis) { return grid.shape().axis_size(axis); };
    const Layout::Cut first{Split::balanced(7, parts(rows), 0), {rows}};
    const Layout::Cut second{Split::balanced(5, parts(columns), 1, 2), {columns}};
    std::map<std::string, Kind> copied;
    for (const auto& axis : grid.shape().axes())
      if (axis.name != rows && axis.name != columns) copied.emplace(axis.name, Kind::copied);
    const auto piece = [&](std::vector<int64_t> shape, std::vector<Layout::Cut> cuts) {
      return Piece{Layout(grid.shape(), std::move(shape), std::move(cuts), copied), grid, nn::Initial::normal(1)};
    };
    weight = register_piece("weight", piece({7, 5, 3}, {first, second}), at::kDouble);
    bias = register_piece("bias", piece({5}, {}), at::kDouble);
    mean = register_piece("mean", piece({7}, {first}), at::kDouble, /*is_buffer=*/true);
    Piece count = piece({}, {});
    count.initial = nn::Initial::zeros();
    calls = register_piece("calls", std::move(count), at::kLong, /*is_buffer=*/true);
    nn::initialize(*this, 5);
  }
  at::Tensor weight, bias, mean, calls;
};

/// Rank 0's folder, on all ranks.
std::filesystem::path shared_path(const test::TemporaryFolder& folder, const Communicator& world) {
  std::string path = folder.path().string();
  path.resize(4096, '\0');
  world.broadcast({path.data(), static_cast<int64_t>(path.size()), ElementType::uint8}, 0);
  return path.c_str();
}

TEST(Checkpoint, of_parameters_buffers_and_moments_loads_in_any_layout) {
  const test::TemporaryFolder folder;
  for_each_world({1, 2, 4}, [&](const Communicator& world) {
    const int half = world.size() / 2 < 1 ? 1 : world.size() / 2, rest = world.size() / half;
    const Grid grid(world, {{"dp", rest}, {"a", half}, {"b", 1}}), turned(world, {{"b", half}, {"a", rest}, {"dp", 1}});
    Layers saved(grid, "a", "b"), loaded(turned, "b", "a"),
        single(Grid(Communicator(), {{"a", 1}, {"b", 1}}), "a", "b");
    const std::filesystem::path weights = shared_path(folder, world) / "weights";
    const std::filesystem::path moments = shared_path(folder, world) / "moments";
    {
      const at::NoGradGuard no_gradient;
      saved.calls.fill_(41);
      saved.bias.fill_(2);
    }
    parallel::Optimizer before(nn::parameters_of(saved), parallel::adamw()),
        after(nn::parameters_of(loaded), parallel::adamw()), alone(nn::parameters_of(single), parallel::adamw());
    (saved.weight.square().sum() + saved.bias.sum()).backward();
    before.step(0.1);
    save_state(weights, nn::parameters_of(saved), grid);
    save_state(moments, before.moments(), grid);
    world.barrier();
    load_state(weights, nn::parameters_of(loaded));
    load_state(weights, nn::parameters_of(single));
    for (parallel::Optimizer* optimizer : {&after, &alone}) {
      load_state(moments, optimizer->moments());
      optimizer->set_steps_taken(1);
    }
    expect_same_tensors(global_tensors(loaded, false), global_tensors(single, false), "weights and buffers");
    EXPECT_EQ(loaded.calls.item<int64_t>(), 41);
    // The same gradient then makes the same step: so the moments are the same.
    loaded.weight.mutable_grad() = at::ones_like(loaded.weight);
    single.weight.mutable_grad() = at::ones_like(single.weight);
    after.step(0.1);
    alone.step(0.1);
    expect_same_tensors(global_tensors(loaded, false), global_tensors(single, false), "weights after a step");
    if (world.rank() == 0) {
      EXPECT_EQ(SafetensorsFile(weights).shape("weight"), (std::vector<int64_t>{7, 5, 3}));
      EXPECT_EQ(SafetensorsFile(weights).dtype("calls"), at::kLong);
    }
    world.barrier();  // the folder goes with rank 0
  });
}

/// What the file says of each tensor's checksum, and its bytes.
std::pair<Metadata, std::string> sums_and_bytes(const std::filesystem::path& path) {
  return {SafetensorsFile(path).metadata(), contents_of(path)};
}

TEST(Checkpoint, has_the_same_bytes_and_checksums_in_every_layout) {
  const test::TemporaryFolder folder;
  std::pair<Metadata, std::string> expected;
  for_each_world({1, 2, 4}, [&](const Communicator& world) {
    for (const int half : {1, world.size() / 2, world.size()}) {
      if (half == 0) continue;
      const Grid grid(world, {{"dp", world.size() / half}, {"a", half}, {"b", 1}});
      const std::filesystem::path path = shared_path(folder, world) / "weights";
      save_state(path, nn::parameters_of(Layers(grid, "a", "b")), grid);
      if (world.rank() == 0 && expected.first.empty()) expected = sums_and_bytes(path);
      if (world.rank() == 0) {
        EXPECT_EQ(sums_and_bytes(path), expected);
        EXPECT_EQ(expected.first.size(), 4u);
        EXPECT_FALSE(std::filesystem::exists(path.string() + ".adjoin-new"));
      }
      world.barrier();
    }
  });
}

TEST(Checkpoint, that_is_damaged_in_any_byte_is_refused_by_all_with_the_name_of_the_tensor) {
  const test::TemporaryFolder folder;
  for_each_world({1, 2, 4}, [&](const Communicator& world) {
    const Grid grid(world, {{"dp", 1}, {"a", world.size()}, {"b", 1}});
    Layers layers(grid, "a", "b");
    const std::filesystem::path path = shared_path(folder, world) / "weights";
    save_state(path, nn::parameters_of(layers), grid);
    const SafetensorsFile file(path);
    for (const char* name : {"weight", "bias", "mean", "calls"}) {
      const StoredTensor stored = file.find(name);
      for (const int64_t at : {stored.begin, (stored.begin + stored.end) / 2, stored.end - 1}) {
        const auto flip = [&] {
          if (world.rank() == 0) {
            std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
            bytes.seekg(file.data_begin() + at);
            const char byte = static_cast<char>(bytes.get() ^ 1);
            bytes.seekp(file.data_begin() + at);
            bytes.put(byte);
          }
          world.barrier();
        };
        flip();
        EXPECT_THAT(thrown_by<DamagedFile>([&] { load_state(path, nn::parameters_of(layers)); }),
                    HasSubstr("weights: tensor '" + std::string(name) + "' is damaged"));
        flip();
      }
    }
    EXPECT_NO_THROW(load_state(path, nn::parameters_of(layers)));
    world.barrier();
  });
}

TEST(Checkpoint, without_checksums_as_earlier_versions_wrote_it_is_read) {
  const test::TemporaryFolder folder;
  const Grid alone(Communicator(), {{"a", 1}, {"b", 1}});
  Layers layers(alone, "a", "b"), loaded(alone, "a", "b");
  std::map<std::string, at::Tensor> tensors;
  for (const nn::Parameter& piece : nn::parameters_of(layers)) tensors.emplace(piece.name, piece.tensor.detach());
  write_safetensors(folder / "weights", tensors);
  {
    const at::NoGradGuard no_gradient;
    loaded.weight.zero_();
  }
  load_state(folder / "weights", nn::parameters_of(loaded));
  EXPECT_TRUE(loaded.weight.equal(layers.weight));
  tensors["bias"] = tensors["bias"].clone();
  tensors["bias"][2] = INFINITY;
  write_safetensors(folder / "weights", tensors);
  EXPECT_THAT(thrown_by<InvalidArgument>([&] { load_state(folder / "weights", nn::parameters_of(loaded)); }),
              HasSubstr("weights: tensor 'bias' holds numbers that are not finite"));
}

TEST(Checkpoint, of_which_the_header_is_damaged_is_no_other_models) {
  const test::TemporaryFolder folder;
  const Grid alone(Communicator(), {{"a", 1}, {"b", 1}});
  Layers layers(alone, "a", "b");
  const std::pair<std::string, std::string> changes[] = {{"\"I64\"", "\"F64\""}, {"[7,5,3]", "[5,7,3]"}};
  for (const auto& [from, to] : changes) {
    save_state(folder / "weights", nn::parameters_of(layers), alone);
    std::string content = contents_of(folder / "weights");
    const size_t place = content.find(from);
    ASSERT_NE(place, content.npos) << from;
    test::put(folder / "weights", content.replace(place, from.size(), to));
    EXPECT_THAT(thrown_by<DamagedFile>([&] { load_state(folder / "weights", nn::parameters_of(layers)); }),
                HasSubstr("is damaged: its numbers do not match its checksum"));
  }
}

TEST(Checkpoint, has_one_value_for_each_element_and_metadata_that_are_no_checksums) {
  const test::TemporaryFolder folder;
  for_each_world({2}, [&](const Communicator& world) {
    const Grid grid(world, {{"a", 2}});
    const std::string path = folder / "none";
    const auto refused = [&](const Layout& layout, const Metadata& metadata = {}) {
      const nn::Parameter piece{"x", at::zeros(layout.shape_on(world.rank())), layout, grid, {}};
      return thrown_by<InvalidArgument>([&] { save_state(path, {piece}, grid, metadata); });
    };
    const Split overlapping = Split::covering({{{0, 2}}, {{1, 3}}}, 3, 0);
    EXPECT_THAT(refused(Layout(grid.shape(), {3}, {}, {{"a", Kind::partial}})), HasSubstr("'x' is a summand"));
    EXPECT_THAT(refused(Layout(grid.shape(), {3}, {{overlapping, {"a"}}})), HasSubstr("its parts overlap"));
    EXPECT_THAT(refused(Layout(grid.shape(), {3}), {{"checksum.x", "1"}}), HasSubstr("would be a checksum"));
    EXPECT_FALSE(std::filesystem::exists(path));
  });
}

TEST(Checkpoint, of_another_optimizers_moments_is_refused) {
  const test::TemporaryFolder folder;
  const Grid alone(Communicator(), {{"a", 1}, {"b", 1}});
  Layers layers(alone, "a", "b");
  parallel::Optimizer adamw(nn::parameters_of(layers), parallel::adamw()),
      momentum(nn::parameters_of(layers), parallel::sgd({.momentum = 0.9})),
      plain(nn::parameters_of(layers), parallel::sgd());
  const auto message = [&](const parallel::Optimizer& saved, const parallel::Optimizer& loaded) {
    save_state(folder / "moments", saved.moments(), alone);
    return thrown_by<InvalidArgument>(
        [&] { load_state(folder / "moments", loaded.moments(), {.rule = loaded.rule().name}); });
  };
  const std::string file = (folder / "moments").string();
  EXPECT_EQ(message(adamw, momentum), file + ": holds 'first.bias', which is not a moment of sgd");
  EXPECT_EQ(message(momentum, adamw), file + ": holds 'momentum.bias', which is not a moment of adamw");
  EXPECT_EQ(message(plain, momentum), file + ": there is no tensor 'momentum.bias'");
  EXPECT_EQ(message(plain, plain), "nothing was thrown");
}

TEST(Checkpoint, of_a_module_of_one_worker_holds_its_buffers_too) {
  const test::TemporaryFolder folder;
  for_each_world({1, 2}, [&](const Communicator& world) {
    const Grid grid(world, {{"dp", world.size()}});
    torch::nn::BatchNorm1d saved(3), loaded(3);
    saved->running_mean.fill_(7);
    const std::filesystem::path path = shared_path(folder, world) / "weights";
    save_state(path, nn::parameters_of(*saved, grid), grid);
    world.barrier();
    load_state(path, nn::parameters_of(*loaded, grid));
    EXPECT_TRUE(loaded->running_mean.equal(at::full({3}, 7.0)));
    EXPECT_TRUE(loaded->num_batches_tracked.equal(saved->num_batches_tracked));
    world.barrier();
  });
}

/// Complex numbers of both types, rows over an axis of the grid and in odd memory, and a single one.
std::vector<nn::Parameter> complex_pieces(const Grid& grid, at::ScalarType wide, double factor) {
  const std::string axis = grid.shape().axes()[0].name;
  const int parts = grid.shape().axis_size(axis);
  Numbers odd(static_cast<uint64_t>(grid.world().rank()));
  const auto piece = [&](const std::string& name, at::ScalarType type) {
    const Layout layout(grid.shape(), {5, 3}, {{Split::balanced(5, parts, 0), {axis}}});
    const at::Tensor reals = at::arange(15, at::kDouble).view({5, 3});
    const Range rows = Split::balanced(5, parts, 0).ranges(grid.world().rank())[0];
    const at::Tensor mine = (at::complex(reals, -reals) * factor).narrow(0, rows.begin, rows.size()).to(type);
    return nn::Parameter{name, in_odd_memory(mine, odd).detach(), layout, grid, {}};
  };
  return {piece("narrow", at::kComplexFloat),
          piece("wide", wide),
          {"one",
           at::full({}, c10::complex<double>(1, 2), at::kComplexDouble) * factor,
           Layout(grid.shape(), {}),
           grid,
           {}}};
}

TEST(Checkpoint, of_complex_numbers_loads_in_any_layout_and_type) {
  const test::TemporaryFolder folder;
  for_each_world({1, 2, 3}, [&](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}}), alone(Communicator(), {{"w", 1}});
    const std::filesystem::path path = shared_path(folder, world) / "complex";
    save_state(path, complex_pieces(grid, at::kComplexDouble, 1), grid);
    world.barrier();
    {
      const SafetensorsFile file(path);
      EXPECT_EQ(file.dtype("narrow"), at::kComplexFloat);
      EXPECT_EQ(file.shape("narrow"), (std::vector<int64_t>{5, 3}));
      EXPECT_EQ(file.dtype("wide"), at::kDouble);  // the format has no complex128
      EXPECT_EQ(file.shape("wide"), (std::vector<int64_t>{5, 3, 2}));
      EXPECT_EQ(file.shape("one"), (std::vector<int64_t>{2}));
    }
    for (const at::ScalarType type : {at::kComplexDouble, at::kComplexFloat})
      for (const Grid& other : {grid, alone}) {
        const auto loaded = complex_pieces(other, type, 0), expected = complex_pieces(other, type, 1);
        check_state(path, loaded);
        load_state(path, loaded);
        for (size_t i = 0; i < loaded.size(); ++i) EXPECT_TRUE(loaded[i].tensor.equal(expected[i].tensor)) << i;
      }
    std::vector<nn::Parameter> reals = complex_pieces(grid, at::kComplexDouble, 0);
    reals[0].tensor = at::real(reals[0].tensor);
    EXPECT_THAT(thrown_by<InvalidArgument>([&] { load_state(path, reals); }),
                HasSubstr("tensor 'narrow' is of ComplexFloat, expected Float"));
    world.barrier();
  });
}

}  // namespace
}  // namespace adjoin::train
