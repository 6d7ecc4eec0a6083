#include "adjoin/task/same_bits.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/movement/fixed_order.hpp"

namespace adjoin::train {
namespace {

using C = Configuration;

// Rows of a product that hide the cost of its call, and the most leaves of a lane: more would cost without a use.
constexpr int64_t kRows = 128, kMostLeaves = 4;
constexpr int64_t kFewRows = 1024;  // of a batch, which then has two lanes

/// What --same-bits takes where nothing else is said.
SameBits defaults_of(const C& c) {
  SameBits numbers;
  const int64_t rows = c.batch * c.sequence;
  numbers.lanes = std::min<int64_t>(c.batch, rows < kFewRows ? 2 : 4);
  const int64_t of_leaf = c.precision == Precision::bf16 ? 2 * kRows : kRows;
  const int64_t samples = c.batch / numbers.lanes;
  numbers.leaves = std::clamp<int64_t>(rows / numbers.lanes / of_leaf, 1, std::min(kMostLeaves, samples));
  numbers.features = std::min<int64_t>(2, c.key_heads == 0 ? c.heads : c.key_heads);
  return numbers;
}

int64_t number_of(std::string_view text, const std::string& name) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size() && number >= 1,
          [&] { return "--same-bits " + name + "=" + std::string(text) + ": expected a number of at least 1"; });
  return number;
}

void at_most(int64_t number, int64_t most, const std::string& name, const std::string& what) {
  require(number <= most, [&] {
    return "--same-bits " + name + "=" + std::to_string(number) + ": expected at most " + std::to_string(most) + ", " +
           what;
  });
}

}  // namespace

std::optional<SameBits> same_bits(const C& c) {
  if (c.same_bits == "off") return std::nullopt;
  SameBits numbers = defaults_of(c);
  const auto member = [&](std::string_view name) -> int64_t& {
    if (name == "lanes") return numbers.lanes;
    if (name == "leaves") return numbers.leaves;
    if (name == "features") return numbers.features;
    require(name == "tokens", [&] {
      return "--same-bits " + std::string(name) +
             ": expected off, on, or some of lanes=, leaves=, features= and tokens=";
    });
    return numbers.tokens;
  };
  if (c.same_bits != "on")
    for (const std::string_view part : parts_of(c.same_bits, ',')) {
      const std::string_view name = part.substr(0, part.find('='));
      member(name) = number_of(part.size() > name.size() ? part.substr(name.size() + 1) : "", std::string(name));
    }
  at_most(numbers.lanes, c.batch, "lanes", "the samples of --batch");
  at_most(numbers.leaves, (c.batch + numbers.lanes - 1) / numbers.lanes, "leaves", "the samples of a lane");
  at_most(numbers.features, c.key_heads == 0 ? c.heads : c.key_heads, "features", "the heads of keys");
  at_most(numbers.tokens, c.sequence, "tokens", "the tokens of --sequence");
  return numbers;
}

std::shared_ptr<const FixedOrder> order_of(const Configuration& c) {
  const std::optional<SameBits> numbers = same_bits(c);
  if (!numbers) return nullptr;
  const auto order = std::make_shared<FixedOrder>();
  order->numbers = *numbers;
  order->blocks = TokenBlocks::of(numbers->tokens, static_cast<int>(c.cp), c.is_decoder());
  return order;
}

std::string same_bits_text(const C& c) {
  const std::optional<SameBits> numbers = same_bits(c);
  if (!numbers) return "";
  std::string text = "sums of " + numbers->to_string();
  const auto largest_share = [](int64_t parts, int64_t ranks) {
    return static_cast<double>((parts + ranks - 1) / ranks * ranks) / static_cast<double>(parts);
  };
  const double share = largest_share(numbers->lanes, c.dp) * largest_share(numbers->features, c.tp) *
                       largest_share(numbers->tokens, c.cp);
  if (share > 1) text += "; the busiest rank has " + fixed(share, 2) + " of an even share";
  if (c.dp > numbers->lanes) text += ", " + counted((c.dp - numbers->lanes) * c.pp * c.cp * c.tp, "rank") + " nothing";
  return text;
}

void check_same_bits(const C& c) {
  const std::optional<SameBits> numbers = same_bits(c);
  if (!numbers) return;
  const auto check = [](bool is_right, const std::string& what, const std::string& reason) {
    require(is_right, [&] { return "--same-bits with " + what + ": " + reason; });
  };
  check(!c.has_program() && c.task.empty(), c.has_program() ? "--program" : "a task of one's own",
        "only adjoin's own models keep an order of sums");
  check(c.precision == Precision::fp32 || c.precision == Precision::bf16, "--precision " + text_of("precision", c),
        "products keep their bits in fp32 and bf16 alone");
  check(c.device == "cpu", "--device " + c.device, "kernels were tried on CPUs alone");
  check(c.cp <= numbers->tokens, "--cp " + std::to_string(c.cp),
        "more ranks than blocks of tokens; tokens=" + std::to_string(c.cp) + " or more allows it");
  check(c.cp == 1 || c.cp_method != nn::AttentionMethod::gathered, "--cp-method gathered",
        "its sums follow the ranks; ring and ulysses keep an order");
  check(!c.halves, "--halves", "both halves would add to one lane at once");
  check(!c.pipeline.ends_with(".csv"), "--pipeline " + c.pipeline, "its order of micro-batches is not known");
  check(c.tp <= numbers->features, "--tp " + std::to_string(c.tp),
        "more ranks than parts of features; features=" + std::to_string(c.tp) + " or more allows it");
}

}  // namespace adjoin::train
