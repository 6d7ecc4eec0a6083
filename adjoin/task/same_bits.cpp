#include "adjoin/task/same_bits.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/movement/fixed_order.hpp"

namespace adjoin::train {
namespace {

using C = Configuration;

// Rows of a product that hide the cost of its call, and the most leaves of a lane: more would cost without a use.
constexpr int64_t kRows = 128, kMostLeaves = 4;
constexpr int64_t kFewRows = 1024;  // of a batch, which then has two lanes

/// The most parts of features, and what they are.
std::pair<int64_t, const char*> most_features(const C& c) {
  return c.key_heads == 0 ? std::pair(c.heads, "the heads of attention")
                          : std::pair(c.key_heads, "the heads of keys, --key-heads");
}

/// What --same-bits takes where nothing else is said.
SameBits defaults_of(const C& c) {
  SameBits numbers;
  const int64_t rows = c.batch * c.sequence;
  numbers.lanes = std::min<int64_t>(c.batch, rows < kFewRows ? 2 : 4);
  const int64_t of_leaf = c.precision == Precision::bf16 ? 2 * kRows : kRows;
  const int64_t samples = c.batch / numbers.lanes;
  numbers.leaves = std::clamp<int64_t>(rows / numbers.lanes / of_leaf, 1, std::min(kMostLeaves, samples));
  numbers.features = std::min<int64_t>(2, most_features(c).first);
  return numbers;
}

const std::map<std::string, int64_t SameBits::*> kNumbers{{"lanes", &SameBits::lanes},
                                                          {"leaves", &SameBits::leaves},
                                                          {"features", &SameBits::features},
                                                          {"tokens", &SameBits::tokens}};

/// The numbers that a text gives, by name; none of "on".
std::map<std::string, int64_t> numbers_in(const std::string& text) {
  std::map<std::string, int64_t> numbers;
  if (text == "on") return numbers;
  const std::string given = "--same-bits " + text;
  for (const std::string_view part : parts_of(text, ',')) {
    const std::string name(part.substr(0, part.find('=')));
    require(kNumbers.contains(name), given + ": expected off, on, or some of lanes=N,leaves=N,features=N,tokens=N");
    const std::string_view digits = part.substr(std::min(part.size(), name.size() + 1));
    int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc::result_out_of_range) number = std::numeric_limits<int64_t>::max();
    require((error == std::errc() || number > 1) && end == digits.data() + digits.size() && number >= 1,
            given + ": expected a whole number of at least 1 for " + name + ", as in " + name + "=2");
    require(numbers.emplace(name, number).second, given + ": gives " + name + " twice");
  }
  return numbers;
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
  for (const auto& [name, number] : numbers_in(c.same_bits)) numbers.*kNumbers.at(name) = number;
  at_most(numbers.lanes, c.batch, "lanes", "the samples of --batch");
  at_most(numbers.leaves, (c.batch + numbers.lanes - 1) / numbers.lanes, "leaves", "the samples of a lane");
  at_most(numbers.features, most_features(c).first, "features", most_features(c).second);
  at_most(numbers.tokens, c.sequence, "tokens", "the tokens of --sequence");
  return numbers;
}

std::string resumed_same_bits(const std::string& run, const std::string& given) {
  if (run == "off" || run == "on" || given == "off") return given;
  std::map<std::string, int64_t> numbers = numbers_in(given);
  numbers.merge(numbers_in(run));
  std::vector<std::string> parts;
  for (const auto& [name, number] : numbers) parts.push_back(name + "=" + std::to_string(number));
  return joined(parts, ",");
}

std::shared_ptr<const FixedOrder> order_of(const Configuration& c) {
  const std::optional<SameBits> numbers = same_bits(c);
  if (!numbers) return nullptr;
  const auto order = std::make_shared<FixedOrder>();
  order->numbers = *numbers;
  order->blocks = TokenBlocks::of(numbers->tokens, static_cast<int>(c.cp), c.is_decoder());
  return order;
}

double share_of_busiest_rank(const C& c) {
  const std::optional<SameBits> numbers = same_bits(c);
  if (!numbers) return 1;
  const auto share = [](int64_t parts, int64_t ranks) {
    return static_cast<double>((parts + ranks - 1) / ranks * ranks) / static_cast<double>(parts);
  };
  return share(numbers->lanes, c.dp) * share(numbers->features, c.tp) * share(numbers->tokens, c.cp);
}

std::string same_bits_text(const C& c) {
  const std::optional<SameBits> numbers = same_bits(c);
  if (!numbers) return "";
  std::string text = "sums of " + numbers->to_string();
  const double share = share_of_busiest_rank(c);
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
  check(c.cp == 1 || c.cp_method != nn::AttentionMethod::gathered, "--cp-method gathered",
        "its sums follow the ranks; ring and ulysses keep an order");
  check(!c.halves, "--halves", "both halves would add to one lane at once");
  check(!c.pipeline.ends_with(".csv"), "--pipeline " + c.pipeline, "its order of micro-batches is not known");
  const auto check_ranks = [](const std::string& option, int64_t ranks, const std::string& name, int64_t parts,
                              int64_t needed, int64_t most, const std::string& what) {
    require(ranks <= parts, [&] {
      const std::string text = option + " " + std::to_string(ranks);
      if (ranks > most) return text + ": with --same-bits expected at most " + std::to_string(most) + ", " + what;
      return text + ": --same-bits " + name + "=" + std::to_string(parts) + " is for at most " +
             counted(parts, "rank") + "; a training with " + name + "=" + std::to_string(needed) + " or more allows it";
    });
  };
  check_ranks("--tp", c.tp, "features", numbers->features, c.tp, most_features(c).first, most_features(c).second);
  check_ranks("--cp", c.cp, "tokens", numbers->tokens, c.is_decoder() ? c.cp + c.cp % 2 : c.cp, c.sequence,
              "the tokens of --sequence");
  check(c.cp == 1 || !c.is_decoder() || numbers->tokens % 2 == 0,
        "tokens=" + std::to_string(numbers->tokens) + " and --cp " + std::to_string(c.cp),
        "a decoder's ranks hold blocks in pairs (zig-zag), expected an even number of blocks");
}

}  // namespace adjoin::train
