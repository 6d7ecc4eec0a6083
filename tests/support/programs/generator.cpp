#include "tests/support/programs/generator.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/contract/call.hpp"

namespace adjoin::testing::programs {

namespace {

constexpr int kMostGroups = 24;
constexpr int kMostStreams = 3;
constexpr int kMostThreads = 2;

std::vector<int> numbers_to(int n) {
  std::vector<int> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// Mostly few elements, as calls are then most alike in time; some that go in blocks.
int64_t draw_count(Random& random) {
  const int of_hundred = random.below(100);
  if (of_hundred < 12) return 0;
  if (of_hundred < 75) return random.between(1, 8);
  return random.below(of_hundred < 93 ? 70 : 1500);
}

std::vector<int64_t> draw_counts(Random& random, int n) {
  std::vector<int64_t> counts(static_cast<size_t>(n), draw_count(random));
  if (random.chance(60))
    for (int64_t& count : counts) count = draw_count(random);
  return counts;
}

void draw_reduction(Random& random, Step& step) {
  do {
    step.reduction = static_cast<Reduction>(random.below(kReductions));
  } while (!is_reducible(step.reduction, step.type));
}

class Generator {
 public:
  Generator(uint64_t seed, const Options& options) : options_(options), random_(seed) {
    program_.seed = seed;
    program_.groups.push_back({.members = numbers_to(random_.between(options.fewest_ranks, options.most_ranks))});
    usable_ = {0};
  }

  Program make() {
    const int steps = random_.between(options_.fewest_steps, options_.most_steps);
    while (static_cast<int>(program_.steps.size()) < steps) add_step();
    while (!lanes_.empty()) join(lanes_.front());
    wait_for_all(0);
    return std::move(program_);
  }

 private:
  Group& group(int number) { return program_.groups[static_cast<size_t>(number)]; }

  Step& add(Step step) {
    step.id = static_cast<int>(program_.steps.size());
    program_.steps.push_back(std::move(step));
    return program_.steps.back();
  }

  void add_step() {
    const int on = random_.one_of(usable_), kind = random_.below(100);
    if (kind < 14 && may_make_group(on)) return make_group(on);
    if (kind < 20 && !pending_.empty()) return wait_for(random_.one_of(pending_));
    if (kind == 20 && !lanes_.empty()) return join(random_.one_of(lanes_));
    if (kind == 21 && random_.chance(10)) {
      add({.kind = Kind::sleep, .group = on, .root = random_.below(group(on).size()), .shift = random_.between(1, 10)});
      return;
    }
    call(on);
  }

  bool may_make_group(int of) { return !group(of).is_stream && static_cast<int>(program_.groups.size()) < kMostGroups; }

  void call(int on) {
    Step& step = add(draw_call(random_, group(on).size()));
    step.id = static_cast<int>(program_.steps.size()) - 1;
    step.group = on;
    if (!group(on).is_stream) return;
    step.is_in_run = random_.chance(25);
    pending_.push_back(step.id);
  }

  int new_group(Group made, int parent) {
    made.parent = parent;
    program_.groups.push_back(std::move(made));
    const int number = static_cast<int>(program_.groups.size()) - 1;
    group(number).same = number;
    usable_.push_back(number);
    return number;
  }

  /// A group of ranks of `of` in the given order, for the same thread.
  Group part_of(int of, const std::vector<int>& ranks) {
    Group part{.lane = group(of).lane, .in_steps = group(of).in_steps};
    for (const int rank : ranks) part.members.push_back(group(of).members[static_cast<size_t>(rank)]);
    return part;
  }

  void make_group(int of) {
    switch (random_.below(7)) {
      case 0:
      case 1:
        return split(of);
      case 2:
      case 3:
        return subset(of);
      case 4:
        return choose_how(of);
      case 5:
        if (options_.has_streams && streams_ < kMostStreams) return stream(of);
        return subset(of);
      default:
        if (options_.has_threads && threads_ < kMostThreads && group(of).lane == 0) return start_thread(of);
        return choose_how(of);
    }
  }

  void split(int of) {
    const int size = group(of).size(), colors = random_.between(1, 3);
    std::vector<int> ranks;
    for (int r = 0; r < size; ++r) ranks.push_back(random_.chance(8) ? -1 : random_.below(colors));
    for (int r = 0; r < size; ++r) ranks.push_back(random_.between(-3, 3));
    const int made = static_cast<int>(program_.groups.size());
    add({.kind = Kind::split, .group = of, .ranks = ranks, .made = made});
    for (int color = 0; color < colors; ++color) {
      std::vector<std::pair<int, int>> members;  // key, rank
      for (int r = 0; r < size; ++r)
        if (ranks[static_cast<size_t>(r)] == color) members.emplace_back(ranks[static_cast<size_t>(size + r)], r);
      std::sort(members.begin(), members.end());
      std::vector<int> in_order;
      for (const auto& [key, rank] : members) in_order.push_back(rank);
      new_group(part_of(of, in_order), of);
      if (members.empty()) usable_.pop_back();
    }
  }

  void subset(int of) {
    std::vector<int> ranks = numbers_to(group(of).size());
    if (random_.chance(25))
      std::reverse(ranks.begin(), ranks.end());
    else if (random_.chance(75))
      random_.shuffle(ranks);
    if (random_.chance(60)) ranks.resize(static_cast<size_t>(random_.between(1, group(of).size())));
    const int made = new_group(part_of(of, ranks), of);
    add({.kind = Kind::subset, .group = of, .ranks = ranks, .made = made});
  }

  /// The same group with a collective by an algorithm, or with reductions in the order of ranks.
  void choose_how(int of) {
    Group how = part_of(of, numbers_to(group(of).size()));
    Step step{.kind = random_.chance(25) ? Kind::deterministic : Kind::with_algorithm, .group = of};
    if (step.kind == Kind::deterministic) {
      for (const Kind kind : {Kind::reduce, Kind::all_reduce, Kind::reduce_scatter})
        how.in_steps |= 1u << static_cast<unsigned>(kind);
    } else {
      step.collective = static_cast<Collective>(random_.below(kCollectives));
      std::vector<std::string> names{"auto"};
      for (const auto algorithm : algorithm::names_of(step.collective)) names.emplace_back(algorithm);
      step.algorithm = random_.one_of(names);
      step.chunk = random_.chance(50) ? 0 : random_.between(1, 40);
      how.in_steps |= 1u << static_cast<unsigned>(step.collective);
    }
    step.made = new_group(std::move(how), of);
    group(step.made).same = group(of).same;
    add(std::move(step));
  }

  void stream(int of) {
    ++streams_;
    Group made = part_of(of, numbers_to(group(of).size()));
    made.is_stream = true;
    const int number = new_group(std::move(made), of);
    add({.kind = Kind::stream, .group = of, .made = number});
  }

  void start_thread(int of) {
    Group made = part_of(of, numbers_to(group(of).size()));
    made.lane = ++threads_;
    lanes_.push_back(made.lane);
    const int number = new_group(std::move(made), of);
    add({.kind = Kind::start_thread, .group = of, .made = number});
  }

  void join(int lane) {
    wait_for_all(lane);
    const auto start = std::find_if(program_.steps.begin(), program_.steps.end(), [&](const Step& step) {
      return step.kind == Kind::start_thread && group(step.made).lane == lane;
    });
    const int of = start->group, made = start->made;
    add({.kind = Kind::join_thread, .group = of, .made = made});
    std::erase(lanes_, lane);
    std::erase_if(usable_, [&](int number) { return group(number).lane == lane; });
  }

  void wait_for(int id) {
    const int on = program_.steps[static_cast<size_t>(id)].group;
    add({.kind = Kind::wait, .group = on, .target = id});
    std::erase(pending_, id);
  }

  void wait_for_all(int lane) {
    const std::vector<int> all = pending_;
    for (const int id : all)
      if (program_.group_of(program_.steps[static_cast<size_t>(id)]).lane == lane) wait_for(id);
  }

  const Options& options_;
  Random random_;
  Program program_;
  std::vector<int> usable_, lanes_, pending_;  // groups, helper threads, steps on streams
  int streams_ = 0, threads_ = 0;
};

}  // namespace

Program right_program(uint64_t seed, const Options& options) {
  return Generator(seed, options).make();
}

bool is_reducible(Reduction reduction, ElementType type) {
  const bool is_float = type == ElementType::float16 || type == ElementType::bfloat16 || type == ElementType::float32 ||
                        type == ElementType::float64;
  if (reduction == Reduction::average) return is_float;
  return !is_float || reduction == Reduction::sum || reduction == Reduction::product || reduction == Reduction::min ||
         reduction == Reduction::max;
}

Step draw_call(Random& random, int size) {
  Step step{.kind = static_cast<Kind>(random.below(kCalls)),
            .type = static_cast<ElementType>(random.below(kElementTypes))};
  if (step.kind == Kind::message && size == 1) step.kind = Kind::ring;
  step.root = random.below(size);
  step.is_in_place = random.chance(40);
  if (has_reduction(step.kind)) draw_reduction(random, step);
  step.tag = random.chance(10) ? kMaxTag : random.below(3);
  step.from = random.below(size);
  step.to = (step.from + random.between(1, std::max(1, size - 1))) % size;
  step.shift = random.below(size);
  switch (step.kind) {
    case Kind::barrier:
      break;
    case Kind::gather:
    case Kind::scatter:
    case Kind::all_gather:
    case Kind::reduce_scatter:
      step.counts = draw_counts(random, size);
      break;
    case Kind::all_to_all:
    case Kind::exchange:
      step.counts = draw_counts(random, size * size);
      if (step.kind == Kind::exchange)
        for (int64_t& count : step.counts)
          if (random.chance(30)) count = -1;
      break;
    default:
      step.counts = {random.chance(1) ? 20000 : draw_count(random)};
  }
  return step;
}

}  // namespace adjoin::testing::programs
