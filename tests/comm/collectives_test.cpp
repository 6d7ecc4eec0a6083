// Every collective on every backend, natively, in steps and by every algorithm, against what it means.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/communicator.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/steps_backend.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

using Counts = std::vector<int64_t>;

/// Element i of what `rank` gives: small whole numbers, so that sums and products are exact in every type.
template <class T>
T given(int rank, int64_t i) {
  return element_from<T>(static_cast<double>((rank * 7 + i * 3) % 5) - (std::is_same_v<T, uint8_t> ? 0.0 : 1.0));
}

template <class T>
std::vector<char> all_given(int rank, int64_t count) {
  std::vector<char> bytes(static_cast<size_t>(count) * sizeof(T));
  for (int64_t i = 0; i < count; ++i) put<T>(bytes, i, given<T>(rank, i));
  return bytes;
}

template <class T>
std::vector<char> reduced_over(int ranks, int64_t count, Reduction reduction) {
  std::vector<std::vector<char>> inputs;
  std::vector<const void*> pointers;
  for (int r = 0; r < ranks; ++r) inputs.push_back(all_given<T>(r, count));
  for (const auto& input : inputs) pointers.push_back(input.data());
  return reduce_scalar<T>(pointers, count, reduction);
}

/// Calls `check(reduction, counts)` for all that are defined for T (sum and max where a sanitizer is slow: the kernels of
/// all have tests of their own): sum with all of the counts, the others with two, as every call waits for the scheduler
/// where there are more ranks than cores.
template <class T, class Of, class Check>
void for_each_reduction(const std::vector<Of>& counts, Check check) {
  const std::vector<Of> some(counts.end() - 2, counts.end());
  for (int r = 0; r < kReductions; ++r)
    if (const auto reduction = static_cast<Reduction>(r); is_defined(reduction, element_type_of<T>))
      if (!kIsSanitized || reduction == Reduction::sum || reduction == Reduction::max)
        check(reduction, reduction == Reduction::sum ? counts : some);
}

template <class T>
Buffer as_buffer(std::vector<char>& bytes) {
  return {bytes.data(), static_cast<int64_t>(bytes.size() / sizeof(T)), element_type_of<T>};
}

int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

/// Equal, uneven and zero counts, small and larger than what travels with a call.
std::vector<Counts> interesting_counts(int ranks) {
  std::vector<Counts> all;
  for (const int64_t unit : {0, 3, 1500}) {
    Counts equal, uneven;
    for (int r = 0; r < ranks; ++r) {
      equal.push_back(unit);
      uneven.push_back(r % 3 == 1 ? 0 : unit * (r + 1) + r);
    }
    all.push_back(equal);
    all.push_back(uneven);
  }
  return all;
}

/// Runs `check` on the world's own collectives, on those in steps, and with each algorithm of `collective`.
void on_every_way(Collective collective, const std::function<void(const Communicator&)>& check) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    check(world);
    {
      SCOPED_TRACE("in steps");
      check(Communicator(std::make_shared<StepsBackend>(world)));
    }
    for (const std::string_view algorithm : algorithm::names_of(collective))
      for (const int64_t chunk : algorithm == "ring" ? std::vector<int64_t>{0, 512} : std::vector<int64_t>{0}) {
        SCOPED_TRACE("by " + std::string(algorithm) + " in chunks of " + std::to_string(chunk));
        check(world.with_algorithm(collective, algorithm, chunk));
      }
  });
}

/// The rank's bytes of block `rank` of a buffer that holds blocks of these counts.
template <class T>
std::vector<char> block_of(const std::vector<char>& bytes, const Counts& counts, int rank) {
  const auto begin = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  const auto first = bytes.begin() + begin * static_cast<int64_t>(sizeof(T));
  return {first, first + counts[static_cast<size_t>(rank)] * static_cast<int64_t>(sizeof(T))};
}

/// What all ranks give, each its count, in rank order.
template <class T>
std::vector<char> all_blocks(const Counts& counts) {
  std::vector<char> bytes;
  for (size_t r = 0; r < counts.size(); ++r) {
    const auto block = all_given<T>(static_cast<int>(r), counts[r]);
    bytes.insert(bytes.end(), block.begin(), block.end());
  }
  return bytes;
}

TEST(Barrier, lets_nobody_through_before_the_last_has_come) {
  on_every_way(Collective::barrier, [](const Communicator& world) {
    const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
    for (int last = 0; last < world.size(); ++last) {
      if (world.rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      int64_t came[] = {now()};  // one clock for all processes of a host
      world.barrier();
      int64_t left[] = {now()};
      world.all_reduce(buffer(came), Reduction::max);
      world.all_reduce(buffer(left), Reduction::min);
      EXPECT_LE(came[0], left[0]);
    }
  });
}

TEST(Broadcast, gives_all_ranks_what_the_root_has) {
  on_every_way(Collective::broadcast, [](const Communicator& world) {
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      for (int root = 0; root < world.size(); ++root)
        for (const int64_t count : {0, 1, 5, 1024, 9001}) {
          auto bytes = all_given<T>(world.rank(), count);
          world.broadcast(as_buffer<T>(bytes), root);
          ASSERT_EQ(bytes, all_given<T>(root, count));
        }
    });
  });
}

TEST(AllReduce, reduces_all_types_on_all_ranks) {
  on_every_way(Collective::all_reduce, [](const Communicator& world) {
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      for_each_reduction<T>(Counts{0, 1, 9001, 3, 700}, [&](Reduction reduction, const Counts& totals) {
        for (const int64_t count : totals) {
          auto bytes = all_given<T>(world.rank(), count);
          world.all_reduce(as_buffer<T>(bytes), reduction);
          ASSERT_EQ(bytes, reduced_over<T>(world.size(), count, reduction))
              << name(element_type_of<T>) << " " << name(reduction) << " x " << count;
        }
      });
    });
  });
}

TEST(AllReduce, hides_no_nan) {
  on_every_way(Collective::all_reduce, [](const Communicator& world) {
    for (const Reduction reduction : {Reduction::sum, Reduction::min, Reduction::max})
      for (int culprit = 0; culprit < world.size(); ++culprit) {
        std::vector<float> x(3, static_cast<float>(world.rank()));
        if (world.rank() == culprit) x[1] = NAN;
        world.all_reduce(buffer(x), reduction);
        EXPECT_TRUE(std::isnan(x[1]));
        EXPECT_FALSE(std::isnan(x[0]));
      }
  });
}

TEST(AllReduce, repeats_to_the_bit_from_run_to_run) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    std::mt19937 random(static_cast<unsigned>(world.rank()));
    std::vector<float> given(20000);
    for (float& x : given) x = std::generate_canonical<float, 24>(random) - 0.5f;
    auto first = given;
    world.all_reduce(buffer(first));
    for (int again = 0; again < 20; ++again) {
      auto x = given;
      world.all_reduce(buffer(x));
      ASSERT_EQ(x, first);
    }
  });
}

TEST(Reduce, gives_the_root_the_reduction_and_leaves_inputs_alone) {
  on_every_way(Collective::reduce, [](const Communicator& world) {
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      for (int root = 0; root < world.size(); ++root)
        for_each_reduction<T>(Counts{0, 1, 6, 9000}, [&](Reduction reduction, const Counts& totals) {
          for (const int64_t count : totals) {
            auto in = all_given<T>(world.rank(), count);
            std::vector<char> out(world.rank() == root ? in.size() : 0);
            world.reduce(as_buffer<T>(in), as_buffer<T>(out), reduction, root);
            ASSERT_EQ(in, all_given<T>(world.rank(), count));
            if (world.rank() != root) continue;
            ASSERT_EQ(out, reduced_over<T>(world.size(), count, reduction)) << name(reduction);
          }
        });
    });
  });
}

TEST(Reduce, works_in_place_on_the_root) {
  on_every_way(Collective::reduce, [](const Communicator& world) {
    for (const int64_t count : {4, 9000}) {
      std::vector<double> x(static_cast<size_t>(count), world.rank() + 1.0);
      world.reduce(const_buffer(x), buffer(x), Reduction::sum, world.size() - 1);
      const double n = world.size();
      if (world.rank() == world.size() - 1) {
        EXPECT_EQ(x, std::vector<double>(x.size(), n * (n + 1) / 2));
      }
    }
  });
}

TEST(Gather, puts_blocks_in_rank_order_on_the_root_when_counts_differ) {
  on_every_way(Collective::gather, [](const Communicator& world) {
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      for (const Counts& counts : interesting_counts(world.size()))
        for (int root = 0; root < world.size(); ++root) {
          auto in = all_given<T>(world.rank(), counts[static_cast<size_t>(world.rank())]);
          std::vector<char> out(world.rank() == root ? static_cast<size_t>(total(counts)) * sizeof(T) : 0);
          world.gather(as_buffer<T>(in), as_buffer<T>(out), counts, root);
          if (world.rank() == root) {
            ASSERT_EQ(out, all_blocks<T>(counts));
          }
        }
    });
  });
}

TEST(Scatter, gives_each_rank_its_block_when_counts_differ) {
  on_every_way(Collective::scatter, [](const Communicator& world) {
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      for (const Counts& counts : interesting_counts(world.size()))
        for (int root = 0; root < world.size(); ++root) {
          auto in = world.rank() == root ? all_blocks<T>(counts) : std::vector<char>();
          std::vector<char> out(static_cast<size_t>(counts[static_cast<size_t>(world.rank())]) * sizeof(T));
          world.scatter(as_buffer<T>(in), as_buffer<T>(out), counts, root);
          ASSERT_EQ(out, block_of<T>(all_blocks<T>(counts), counts, world.rank()));
        }
    });
  });
}

TEST(AllGather, puts_blocks_in_rank_order_everywhere_when_counts_differ) {
  on_every_way(Collective::all_gather, [](const Communicator& world) {
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      for (const Counts& counts : interesting_counts(world.size())) {
        auto in = all_given<T>(world.rank(), counts[static_cast<size_t>(world.rank())]);
        std::vector<char> out(static_cast<size_t>(total(counts)) * sizeof(T));
        world.all_gather(as_buffer<T>(in), as_buffer<T>(out), counts);
        ASSERT_EQ(out, all_blocks<T>(counts));
      }
    });
  });
}

TEST(AllGather, takes_a_ranks_own_block_of_the_output_as_its_input) {
  on_every_way(Collective::all_gather, [](const Communicator& world) {
    for (const Counts& counts : interesting_counts(world.size())) {
      const auto expected = all_blocks<int32_t>(counts);
      std::vector<char> out(expected.size());
      const Buffer all = as_buffer<int32_t>(out);
      const auto before = std::accumulate(counts.begin(), counts.begin() + world.rank(), int64_t{0});
      const Buffer own = all.slice(before, counts[static_cast<size_t>(world.rank())]);
      for (int64_t i = 0; i < own.count; ++i) put<int32_t>(out, before + i, given<int32_t>(world.rank(), i));
      world.all_gather(own, all, counts);
      ASSERT_EQ(out, expected);
    }
  });
}

TEST(ReduceScatter, gives_each_rank_its_block_when_counts_differ) {
  on_every_way(Collective::reduce_scatter, [](const Communicator& world) {
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      for_each_reduction<T>(
          interesting_counts(world.size()), [&](Reduction reduction, const std::vector<Counts>& some) {
            for (const Counts& counts : some) {
              auto in = all_given<T>(world.rank(), total(counts));
              std::vector<char> out(static_cast<size_t>(counts[static_cast<size_t>(world.rank())]) * sizeof(T));
              world.reduce_scatter(as_buffer<T>(in), as_buffer<T>(out), counts, reduction);
              const auto all = reduced_over<T>(world.size(), total(counts), reduction);
              ASSERT_EQ(out, block_of<T>(all, counts, world.rank())) << name(reduction);
              ASSERT_EQ(in, all_given<T>(world.rank(), total(counts)));
            }
          });
    });
  });
}

TEST(ReduceScatter, writes_into_its_own_block_of_the_input_and_leaves_the_others) {
  on_every_way(Collective::reduce_scatter, [](const Communicator& world) {
    for (const Counts& counts : interesting_counts(world.size())) {
      auto in = all_given<double>(world.rank(), total(counts));
      auto expected = in;
      const auto sums = reduced_over<double>(world.size(), total(counts), Reduction::sum);
      const auto before = std::accumulate(counts.begin(), counts.begin() + world.rank(), int64_t{0});
      const int64_t count = counts[static_cast<size_t>(world.rank())];
      for (int64_t i = before; i < before + count; ++i) put<double>(expected, i, get<double>(sums.data(), i));
      world.reduce_scatter(as_buffer<double>(in), as_buffer<double>(in).slice(before, count), counts);
      ASSERT_EQ(in, expected);
    }
  });
}

TEST(AllToAll, exchanges_blocks_of_any_counts) {
  on_every_way(Collective::all_to_all, [](const Communicator& world) {
    const auto count_of = [](int from, int to, int64_t unit) {
      return (from + 2 * to) % 3 == 0 ? 0 : unit * (from + 1) + to;
    };
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      for (const int64_t unit : {0, 2, 2000}) {
        Counts sends, receives;
        std::vector<char> in, expected;
        for (int peer = 0; peer < world.size(); ++peer) {
          sends.push_back(count_of(world.rank(), peer, unit));
          receives.push_back(count_of(peer, world.rank(), unit));
          const auto sent = all_given<T>(10 * world.rank() + peer, sends.back());
          const auto got = all_given<T>(10 * peer + world.rank(), receives.back());
          in.insert(in.end(), sent.begin(), sent.end());
          expected.insert(expected.end(), got.begin(), got.end());
        }
        std::vector<char> out(expected.size());
        world.all_to_all(as_buffer<T>(in), sends, as_buffer<T>(out), receives);
        ASSERT_EQ(out, expected);
      }
    });
  });
}

/// Memory of float32 numbers that begins with a page of its own.
class Pages {
 public:
  Pages(int64_t count, float value) : bytes_(static_cast<size_t>(count) * sizeof(float)) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::fill_n(numbers(), count, value);
  }
  ~Pages() { ::munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void make_read_only() const { ASSERT_EQ(::mprotect(memory_, bytes_, PROT_READ), 0); }
  float* numbers() const { return static_cast<float*>(memory_); }

 private:
  size_t bytes_;
  void* memory_;
};

TEST(Broadcast, only_reads_the_memory_of_the_root) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (const int64_t count : {int64_t{3}, int64_t{1} << 18})
      for (const char* algorithm : {"", "naive", "tree", "ring"})
        for (int root = 0; root < world.size(); ++root) {
          const Communicator group =
              *algorithm ? world.with_algorithm(Collective::broadcast, algorithm) : Communicator(world);
          const Pages pages(count, static_cast<float>(world.rank() + 1));
          if (world.rank() == root) pages.make_read_only();
          group.broadcast({pages.numbers(), count, ElementType::float32}, root);
          const float expected = static_cast<float>(root + 1);
          EXPECT_TRUE(std::all_of(pages.numbers(), pages.numbers() + count, [&](float x) { return x == expected; }));
        }
  });
}

}  // namespace
}  // namespace adjoin
