#include "adjoin/parallel/looked_up.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/marks.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/embedding.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/sequentials.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

/// A table that ranks hold copies of, whole and as shards whose rows are looked up.
struct Table {
  explicit Table(const nn::Parameter& whole)
      : copies(nn::copies_of(whole).deterministic()),
        whole(whole.tensor),
        bucket({whole}, {0}),
        shard(bucket.mine(bucket.pack({whole.tensor.detach()})).clone()),
        rows(whole, shard.view({shard_rows(), whole.tensor.size(1)}), copies) {}

  int64_t shard_rows() const { return balanced_range(whole.size(0), copies.size(), copies.rank()).size(); }
  /// This rank's rows of the sum of all gradients, as dense tensors are summed.
  at::Tensor dense_sum(double scale, std::optional<at::ScalarType> wire) const {
    const at::Tensor gradient = whole.grad().defined() ? whole.grad() : at::zeros_like(whole.detach());
    const at::Tensor sent = (gradient * scale).to(copies.size() > 1 && wire ? *wire : whole.scalar_type());
    const at::Tensor packed = bucket.pack({sent});
    copies.reduce_scatter(buffer(packed), buffer(bucket.mine(packed)), bucket.sizes());
    return bucket.mine(packed).view({shard_rows(), whole.size(1)}).to(whole.scalar_type());
  }

  Communicator copies;
  at::Tensor whole;
  Bucket bucket;
  at::Tensor shard;
  LookedUp rows;
};

nn::Parameter copied(const at::Tensor& tensor, const Communicator& world) {
  const Grid grid = on_tp(world);
  return {"words", tensor, nn::layout_copied_on(grid.shape(), tensor.sizes().vec()), grid, {}};
}

at::Tensor drawn_ids(Numbers& draw, int64_t rows) {
  const std::vector<int64_t> shape{draw.from(0, 3), draw.from(1, 5)};
  at::Tensor ids = at::empty(rows == 0 ? std::vector<int64_t>{0, 2} : shape, at::kLong);
  for (int64_t i = 0; i < ids.numel(); ++i) ids.mutable_data_ptr<int64_t>()[i] = draw.from(0, rows - 1);
  return draw.one_in(3) ? ids.to(at::kInt) : ids;
}

TEST(LookedUp, gives_the_bits_of_the_whole_table_and_of_the_sum_of_dense_gradients) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_seed(world, 40, [&](uint64_t seed) {
      Numbers draw(seed);
      const std::vector<at::ScalarType> types{at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
      const at::ScalarType type = types[static_cast<size_t>(draw.from(0, 3))];
      const int64_t rows = draw.one_in(3) ? draw.from(0, 3) : draw.from(4, 40), columns = draw.from(0, 5);
      Table table(copied(drawn({rows, columns}, draw.from(0, 99)).to(type).requires_grad_(), world));
      std::optional<at::ScalarType> wire;
      if (draw.one_in(2) && type != at::kBFloat16 && type != at::kHalf) wire = at::kBFloat16;
      const double scale = draw.one_in(2) ? 1 : 0.25;
      Numbers mine(seed + static_cast<uint64_t>(world.rank()));
      bool any = false;
      for (int64_t passes = draw.from(1, 3); passes > 0; --passes) {
        const at::Tensor ids = drawn_ids(mine, rows);
        const int64_t padding = mine.one_in(2) && rows > 0 ? mine.from(0, rows - 1) : -1;
        const at::Tensor expected = at::embedding(table.whole, ids, padding), found = table.rows.look_up(ids, padding);
        EXPECT_TRUE(found.equal(expected));
        if (mine.one_in(3)) continue;  // another rank has a backward
        const at::Tensor of_vectors = drawn(found.sizes(), passes).to(type);
        torch::autograd::backward({expected}, {of_vectors});
        const at::Tensor dense = table.whole.grad().clone();
        torch::autograd::backward({found}, {of_vectors});
        EXPECT_TRUE(table.whole.grad().equal(dense)) << "which rows do not change";
        any = true;
      }
      EXPECT_EQ(table.rows.has_gradients(), any);
      const at::Tensor sum = table.rows.sum_gradients(scale, wire);
      EXPECT_TRUE(sum.equal(table.dense_sum(scale, wire))) << seed << ": " << sum << table.dense_sum(scale, wire);
      EXPECT_FALSE(table.rows.has_gradients());
    });
  });
}

/// Adds up the elements and the calls of all-to-alls.
struct Received : Observer {
  void begin(const Call& call) override {
    EXPECT_EQ(call.collective, Collective::all_to_all);
    bytes += call.out.bytes();
    ++calls;
  }
  int64_t bytes = 0, calls = 0;
};

TEST(LookedUp, sends_only_rows_that_were_read) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const auto received = std::make_shared<Received>();
    const at::Tensor whole = drawn({1000, 8}, 1).requires_grad_();
    LookedUp rows(copied(whole, world), Table(copied(whole, world)).shard.view({-1, 8}), world.observed_by(received));
    const at::Tensor ids = at::tensor({5, 999, 5, 400 + world.rank()}, at::kLong);
    for (const bool is_backward : {false, true}) {
      if (is_backward)
        rows.sum_gradients();
      else
        rows.look_up(ids).sum().backward();
      EXPECT_EQ(std::exchange(received->calls, 0), 3);
      int64_t all = std::exchange(received->bytes, 0);
      world.all_reduce(buffer(all));
      EXPECT_EQ(all, world.size() * (world.size() * 8 + 3 * (8 + 64))) << "counts, ids and rows";
    }
  });
}

TEST(LookedUp, refuses_ids_that_are_none_before_anything_is_sent) {
  for_each_world({1, 2}, [](const Communicator& world) {
    Table table(copied(drawn({5, 2}, 1), world));
    const auto expect = [&](const at::Tensor& ids, const std::string& message) {
      EXPECT_EQ(thrown_by<InvalidArgument>([&] { table.rows.look_up(ids); }), message);
    };
    if (world.rank() == 0) {
      expect(at::tensor({1, 5}, at::kLong), "'words': expected ids from 0 to 4, got 5");
      expect(at::tensor({-1, 5}, at::kInt), "'words': expected ids from 0 to 4, got -1");
      expect(at::tensor({1.0F}), "'words': expected ids of type int64 or int32, got Float");
    }
    EXPECT_EQ(table.rows.look_up(at::tensor({4}, at::kLong)).sizes(), at::IntArrayRef({1, 2}));
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { LookedUp(copied(at::ones({2}), world), {}, world); }),
              "LookedUp: expected a matrix of floating-point numbers, got 'words'");
  });
}

TEST(LookedUp, gives_whole_gradients_to_those_who_ask_for_them) {
  for_each_world({1, 2}, [](const Communicator& world) {
    Table table(copied(drawn({5, 2}, 1).requires_grad_(), world));
    const at::Tensor ids = at::tensor({1, 4, 1}, at::kLong), weights = drawn({3, 2}, 2);
    const auto gradient_by = [&](const at::Tensor& vectors) {
      return torch::autograd::grad({(vectors.square() * weights).sum()}, {table.whole}, {}, {}, /*create_graph=*/true);
    };
    const at::Tensor found = gradient_by(table.rows.look_up(ids))[0];
    const at::Tensor expected = gradient_by(at::embedding(table.whole, ids))[0];
    EXPECT_TRUE(found.equal(expected));
    EXPECT_FALSE(table.rows.has_gradients());
    found.square().sum().backward();
    EXPECT_TRUE(table.rows.has_gradients());
    expected.square().sum().backward();
    EXPECT_TRUE(table.rows.sum_gradients().equal(table.dense_sum(1, {})));

    EXPECT_TRUE(table.rows.serves(table.whole));
    EXPECT_FALSE(table.rows.serves(table.whole.detach()));
    EXPECT_FALSE(table.rows.serves(table.whole.narrow(0, 1, 4)));
    table.whole.register_hook([](const at::TensorBase&) {});
    EXPECT_FALSE(table.rows.serves(table.whole)) << "whose hook expects a whole gradient";
  });
}

/// Serves the look-ups of one tensor.
struct Owner : MarkedTensors {
  explicit Owner(Table& table) : table(table) {}
  void begin_read(size_t) override { ++reads; }
  void end_read(size_t) noexcept override {}
  void write(size_t, const std::string&) override {}
  at::Tensor look_up(size_t place, const at::Tensor& tensor, const at::Tensor& ids, int64_t padding_idx) override {
    EXPECT_EQ(place, 3U);
    return table.rows.serves(tensor) ? table.rows.look_up(ids, padding_idx) : at::Tensor();
  }
  Table& table;
  int reads = 0;
};

TEST(LookedUp, serves_look_ups_of_marked_tables) {
  for_each_world({1, 2}, [](const Communicator& world) {
    Table table(copied(drawn({5, 2}, 1).requires_grad_(), world));
    const at::Tensor whole = table.whole, ids = at::tensor({1, 4, 1}, at::kLong);
    const at::Tensor expected = at::embedding(whole, ids);
    Owner owner(table);
    const Mark mark(whole, owner, 3);
    EXPECT_TRUE(at::embedding(whole, ids).equal(expected));
    EXPECT_EQ(owner.reads, 0);
    for (const at::Tensor& vectors :
         {at::embedding(whole.detach(), ids), at::embedding(whole, ids, -1, /*scale_grad_by_freq=*/true),
          at::embedding(whole, ids, -1, false, /*sparse=*/true), at::embedding(whole.narrow(0, 0, 5), ids)})
      EXPECT_TRUE(vectors.equal(expected));
    EXPECT_EQ(owner.reads, 4);
  });
}

// The layer of a model whose table is cut over some ranks, and copied over others.
TEST(LookedUp, serves_layers_that_cut_a_table_by_words_or_features) {
  for_each_world({1, 2, 4}, [](const Communicator& world) {
    const int cuts = world.size() > 2 ? 2 : 1;
    for (const bool swap : {false, true}) {
      const int tp = swap ? world.size() / cuts : cuts;
      const Grid grid(world, {{"dp", world.size() / tp}, {"tp", tp}});
      for (const auto cut : {nn::EmbeddingCut::hidden, nn::EmbeddingCut::vocabulary}) {
        nn::ParallelEmbeddingOptions options{.words = 7, .features = 5, .cut = cut, .tensor = at::kDouble};
        nn::ParallelEmbedding layer(options, grid, "tp");
        nn::initialize(*layer, 5);
        const nn::Parameter weight = nn::parameters_of(*layer)[0];
        Table table(weight);
        const int64_t dp = grid.coordinate("dp");
        const at::Tensor ids = (drawn({4}, dp).abs() * 9).to(at::kLong).remainder(7), of_y = drawn({4, 5}, dp);
        const at::Tensor expected = layer->forward(ids);
        (expected * of_y).sum().backward();
        const at::Tensor sum = table.dense_sum(1, {});
        weight.tensor.mutable_grad().reset();
        Owner owner(table);
        const Mark mark(weight.tensor, owner, 3);
        const at::Tensor found = layer->forward(ids);
        EXPECT_TRUE(found.equal(expected));
        (found * of_y).sum().backward();
        EXPECT_FALSE(weight.tensor.grad().defined());
        EXPECT_TRUE(table.rows.sum_gradients().equal(sum));
        EXPECT_EQ(owner.reads, 0);
      }
    }
  });
}

}  // namespace
}  // namespace adjoin::parallel
