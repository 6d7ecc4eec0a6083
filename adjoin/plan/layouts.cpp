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

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i <= number; ++i)
    if (number % i == 0) found.push_back(i);
  return found;
}

std::vector<int64_t> zeros(const Configuration& c, bool narrows) {
  if (c.dp * c.cp == 1) return {1};
  return narrows ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1, 2, 3};
}

std::vector<nn::AttentionMethod> methods(const Configuration& c, bool narrows) {
  using Method = nn::AttentionMethod;
  if (c.cp == 1) return {c.cp_method};
  std::vector<Method> all{Method::ring, Method::ulysses};
  if (!narrows) all.push_back(Method::gathered);
  return all;
}

std::vector<Recompute> recomputations(const Configuration& c) {
  if (keeps_scores(c)) return {Recompute::none, Recompute::attention, Recompute::segment};
  return {Recompute::none, Recompute::segment};
}

std::vector<std::string> pipelines(const Configuration& c, bool narrows) {
  if (c.pp == 1) return {Configuration().pipeline};
  std::vector<std::string> known;
  for (const std::string_view name : pipeline::schedule_names())
    if (!narrows || name == "1f1b" || name == "interleaved") known.emplace_back(name);
  return known;
}

std::vector<int64_t> chunks_of(const Configuration& c, int64_t segments, bool narrows) {
  if (c.pp == 1 || !pipeline::has_chunks(c.pipeline)) return {1};
  std::vector<int64_t> all;
  for (int64_t chunks = 2; chunks * c.pp <= segments; chunks *= 2) all.push_back(chunks);
  return narrows && all.size() > 1 ? std::vector<int64_t>{2} : all;
}

std::vector<int64_t> micro_batches_of(const Configuration& c, bool narrows) {
  if (c.pp == 1) return {c.microbatches};
  const int64_t samples = std::max<int64_t>(1, c.batch / c.dp);  // on the rank with the fewest
  std::vector<int64_t> all;
  for (const int64_t times : {1, 2, 4})
    if (times * c.pp <= samples && (!narrows || times == 4)) all.push_back(times * c.pp);
  return all.empty() ? std::vector<int64_t>{samples} : all;
}

std::vector<bool> halves_of(Configuration c, int64_t ranks_a_host) {
  c.halves = true;
  const bool are_possible =
      c.tp > 1 && c.pp == 1 && c.zero == 1 && !c.has_program() && parts_of_step(c) <= c.batch / c.dp;
  return are_possible && ranks_a_host == 1 ? std::vector{false, true} : std::vector{false};
}

/// All ways in which grids can be used.
std::vector<Configuration> uses_of(std::vector<Configuration> layouts, const std::set<std::string>& fixed,
                                   int64_t segments, int64_t ranks_a_host, bool narrows) {
  // Replaces each layout by one for each value that a field can have in it.
  const auto vary = [&](const char* name, auto field, const auto& values) {
    if (fixed.contains(name)) return;
    std::vector<Configuration> varied;
    for (Configuration& layout : layouts)
      for (const auto& value : values(layout)) {
        layout.*field = value;
        varied.push_back(layout);
      }
    layouts = std::move(varied);
  };
  using C = Configuration;
  vary("sp", &C::sp, [&](const C& c) {
    return c.tp == 1 || c.has_program() ? std::vector{false} : narrows ? std::vector{true} : std::vector{false, true};
  });
  vary("cp_method", &C::cp_method, [&](const C& c) { return methods(c, narrows); });
  vary("recompute", &C::recompute, recomputations);
  vary("zero", &C::zero, [&](const C& c) { return zeros(c, narrows); });
  vary("pipeline", &C::pipeline, [&](const C& c) { return pipelines(c, narrows); });
  vary("chunks", &C::chunks, [&](const C& c) { return chunks_of(c, segments, narrows); });
  vary("microbatches", &C::microbatches, [&](const C& c) { return micro_batches_of(c, narrows); });
  vary("halves", &C::halves, [&](const C& c) { return halves_of(c, ranks_a_host); });
  return layouts;
}

}  // namespace

const std::vector<std::string>& fields_of_grid() {
  static const std::vector<std::string> names{"dp", "ep", "pp", "cp", "tp", "sp"};
  return names;
}

const std::vector<std::string>& fields_of_methods() {
  static const std::vector<std::string> names{"cp_method",    "zero",   "pipeline", "chunks",
                                              "microbatches", "halves", "recompute"};
  return names;
}

Candidates candidates(const Configuration& base, int64_t ranks, const std::set<std::string>& fixed, int64_t segments,
                      int64_t ranks_a_host) {
  Candidates found;
  const bool narrows = ranks > kFewRanks;  // tries fewer methods
  for (const int64_t tp : divisors(ranks))
    for (const int64_t cp : divisors(ranks / tp))
      for (const int64_t pp : divisors(ranks / tp / cp)) {
        const int64_t dp = ranks / tp / cp / pp;
        const bool is_of_texts = base.task.empty();
        if (pp > segments || (base.has_program() && cp > 1) || (is_of_texts && (tp > base.heads || cp > base.sequence)))
          continue;  // train would refuse it
        if (narrows && is_of_texts && cp > 1 && cp * kFewTokens > base.sequence) continue;
        for (const int64_t ep : divisors(dp)) {
          if (base.experts.count % ep != 0) continue;
          if (dp > base.batch) {
            ++found.without_samples;
            continue;
          }
          static_cast<GridSizes&>(found.layouts.emplace_back(base)) = {dp, ep, pp, cp, tp};
        }
      }
  found.layouts = uses_of(std::move(found.layouts), fixed, segments, ranks_a_host, narrows);
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
