#include "adjoin/plan/layouts.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/train/stages.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::plan {
namespace {

using namespace train;

constexpr int64_t kFewTokens = 16;  // the fewest tokens of a sequence for each rank, above kFewRanks ranks

/// The values that a field gets in turn.
template <class T>
std::vector<T> values(const std::set<std::string>& fixed, const char* field, const T& given, std::vector<T> all) {
  return fixed.contains(field) ? std::vector<T>{given} : all;
}

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i <= number; ++i)
    if (number % i == 0) found.push_back(i);
  return found;
}

/// All ways in which one grid can be used.
class Uses {
 public:
  Uses(const std::set<std::string>& fixed, int64_t segments, bool narrows)
      : fixed_(fixed), segments_(segments), narrows_(narrows) {}

  void add(Configuration grid, std::vector<Configuration>& layouts) const {
    for (const bool sp : grid.tp == 1 ? std::vector{false} : narrows_ ? std::vector{true} : std::vector{false, true}) {
      grid.sp = sp;
      for (const nn::AttentionMethod method : methods(grid)) {
        grid.cp_method = method;
        for (const Recompute recompute : recomputations(grid)) {
          grid.recompute = recompute;
          const bool shares = grid.dp * grid.cp > 1;
          for (const int64_t zero : values(fixed_, "zero", grid.zero, zeros(shares))) {
            grid.zero = zero;
            add_pipelines(grid, layouts);
          }
        }
      }
    }
  }

 private:
  std::vector<int64_t> zeros(bool shares) const {
    if (!shares) return {1};
    return narrows_ ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1, 2, 3};
  }
  std::vector<nn::AttentionMethod> methods(const Configuration& c) const {
    using Method = nn::AttentionMethod;
    if (c.cp == 1) return {c.cp_method};
    std::vector<Method> all{Method::ring, Method::ulysses};
    if (!narrows_) all.push_back(Method::gathered);
    return values(fixed_, "cp_method", c.cp_method, all);
  }
  std::vector<Recompute> recomputations(const Configuration& c) const {
    std::vector<Recompute> all{Recompute::none, Recompute::segment};
    if (keeps_scores(c)) all.insert(all.begin() + 1, Recompute::attention);
    return values(fixed_, "recompute", c.recompute, all);
  }
  void add_pipelines(Configuration c, std::vector<Configuration>& layouts) const {
    if (c.pp == 1) {
      const Configuration plain;
      if (!fixed_.contains("pipeline")) c.pipeline = plain.pipeline;
      if (!fixed_.contains("chunks")) c.chunks = plain.chunks;
      layouts.push_back(c);
      return;
    }
    std::vector<std::string> known;
    for (const std::string_view name : pipeline::schedule_names())
      if (!narrows_ || name == "1f1b" || name == "interleaved") known.emplace_back(name);
    for (const std::string& name : values(fixed_, "pipeline", c.pipeline, known)) {
      c.pipeline = name;
      for (const int64_t chunks : values(fixed_, "chunks", c.chunks, chunks_of(c))) {
        c.chunks = chunks;
        for (const int64_t count : values(fixed_, "microbatches", c.microbatches, micro_batches_of(c))) {
          c.microbatches = count;
          layouts.push_back(c);
        }
      }
    }
  }
  std::vector<int64_t> chunks_of(const Configuration& c) const {
    if (!pipeline::has_chunks(c.pipeline)) return {1};
    std::vector<int64_t> all;
    for (int64_t chunks = 2; chunks * c.pp <= segments_; chunks *= 2) all.push_back(chunks);
    return narrows_ && all.size() > 1 ? std::vector<int64_t>{2} : all;
  }
  std::vector<int64_t> micro_batches_of(const Configuration& c) const {
    const int64_t samples = std::max<int64_t>(1, c.batch / c.dp);  // on the rank with the fewest
    std::vector<int64_t> all;
    for (const int64_t times : {1, 2, 4})
      if (times * c.pp <= samples && (!narrows_ || times == 4)) all.push_back(times * c.pp);
    return all.empty() ? std::vector<int64_t>{samples} : all;
  }

  const std::set<std::string>& fixed_;
  int64_t segments_;
  bool narrows_;
};

}  // namespace

const std::vector<std::string>& fields_of_grid() {
  static const std::vector<std::string> names{"dp", "ep", "pp", "cp", "tp", "sp"};
  return names;
}

const std::vector<std::string>& fields_of_methods() {
  static const std::vector<std::string> names{"cp_method", "zero", "pipeline", "chunks", "microbatches", "recompute"};
  return names;
}

Candidates candidates(const Configuration& base, int64_t ranks, const std::set<std::string>& fixed, int64_t segments) {
  Candidates found;
  const bool narrows = ranks > kFewRanks;  // tries fewer methods
  const Uses uses(fixed, segments, narrows);
  for (const int64_t tp : divisors(ranks))
    for (const int64_t cp : divisors(ranks / tp))
      for (const int64_t pp : divisors(ranks / tp / cp)) {
        const int64_t dp = ranks / tp / cp / pp;
        const bool is_of_texts = base.task.empty();
        if (pp > segments || (is_of_texts && (tp > base.heads || cp > base.sequence)))
          continue;  // train would refuse it
        if (narrows && is_of_texts && cp > 1 && cp * kFewTokens > base.sequence) continue;
        for (const int64_t ep : divisors(dp)) {
          if (base.experts.count % ep != 0) continue;
          if (dp > base.batch) {
            ++found.without_samples;
            continue;
          }
          Configuration grid = base;
          grid.dp = dp;
          grid.ep = ep;
          grid.pp = pp;
          grid.cp = cp;
          grid.tp = tp;
          uses.add(grid, found.layouts);
        }
      }
  if (!fixed.contains("microbatches"))
    found.choices.push_back(std::string("--microbatches of pipelines: ") + (narrows ? "4" : "1, 2 and 4") +
                            " for each of their ranks, or all samples");
  if (!fixed.contains("chunks"))
    found.choices.push_back(std::string("--chunks of interleaved pipelines: ") + (narrows ? "2" : "powers of 2"));
  if (narrows) {
    found.choices.push_back("above " + std::to_string(kFewRanks) +
                            " ranks: --pipeline 1f1b and interleaved, --cp-method ring and ulysses,");
    found.choices.push_back("--zero 1 and 3, --sp, --cp of at least " + std::to_string(kFewTokens) +
                            " tokens of the longest sample a rank");
  }
  return found;
}

bool is_accepted(const Configuration& layout, const std::vector<models::Segment>& segments, std::string& why) {
  try {
    validate(layout);
    check_schedule(layout);
    stages_of(layout, segments);
    return true;
  } catch (const InvalidArgument& error) {
    why = error.what();
    return false;
  }
}

std::string options_of(const Configuration& layout) {
  const Configuration plain;
  std::vector<std::string> words;
  const auto add = [&](const std::string& name) {
    const Field& field = field_named(name);
    const bool is_flag = std::holds_alternative<Access<bool>>(field.member);
    const std::string value = text_of(field, layout);
    if (value == text_of(field, plain)) return;
    words.push_back(option_of(name));
    if (!is_flag) words.push_back(value);
  };
  for (const std::string& name : fields_of_grid()) add(name);
  for (const std::string& name : fields_of_methods())
    if ((name != "cp_method" || layout.cp > 1) && (layout.pp > 1 || (name != "pipeline" && name != "chunks")))
      add(name);
  return words.empty() ? "--dp 1" : joined(words, " ");
}

}  // namespace adjoin::plan
