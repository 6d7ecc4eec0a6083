#include "adjoin/cli/numbers.hpp"

#include <algorithm>
#include <charconv>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/launch.hpp"

namespace adjoin::cli {
namespace {

[[noreturn]] void refuse(std::string_view option, std::string_view text, const std::string& expected) {
  throw InvalidArgument(std::string(option) + " is " + std::string(text.empty() ? "empty" : text) + ", expected " +
                        expected);
}

bool reads(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

int64_t number_of(std::string_view text, std::string_view option, int64_t least, int64_t most, std::string_view word) {
  int64_t number = 0;
  if (!reads(text, number) || number < least || number > most)
    refuse(option, text,
           (word.empty() ? "" : std::string(word) + " or ") + std::to_string(least) + " to " + std::to_string(most));
  return number;
}

void check_range(std::string_view option, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    refuse(option, std::to_string(value), std::to_string(least) + " to " + std::to_string(most));
}

void check_least(std::string_view option, int64_t value, int64_t least) {
  if (value < least) refuse(option, std::to_string(value), std::to_string(least) + " or more");
}

void check_product(std::initializer_list<Factor> factors, int64_t most) {
  for (const Factor& factor : factors) check_range(factor.option, factor.value, 1, most);
  std::string all;
  for (const Factor& factor : factors)
    all += (all.empty() ? "" : " times ") + std::string(factor.option) + " " + std::to_string(factor.value);
  int64_t rest = most;
  for (const Factor& factor : factors) {
    rest /= factor.value;
    require(rest >= 1, [&] { return all + " is more than " + std::to_string(most); });
  }
}

size_t check_choice(std::string_view option, std::string_view text, std::span<const std::string_view> names) {
  const auto found = std::ranges::find(names, text);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  refuse(option, text, alternatives(names));
}

void check_ranks(int64_t ranks) {
  check_range("--ranks", ranks, 1, kMostThreads);
  require(!started_by_mpi() || ranks == mpi_job_size(), [&] {
    return "--ranks is " + std::to_string(ranks) + ", the MPI job has " + std::to_string(mpi_job_size());
  });
}

int ranks_from(std::string_view given, int otherwise) {
  if (given.empty()) return started_by_mpi() ? mpi_job_size() : otherwise;
  const int64_t ranks = number_of(given, "--ranks", 1, kMostThreads);
  check_ranks(ranks);
  return static_cast<int>(ranks);
}

std::vector<int64_t> numbers_of(std::string_view text, std::string_view option, int64_t least, int64_t most) {
  const auto number = [&](std::string_view part) { return number_of(part, option, least, most); };
  std::vector<int64_t> numbers;
  if (const size_t dots = text.find(".."); dots != text.npos) {
    if (dots == 0 || dots + 2 == text.size() || text[dots + 2] == '.')
      refuse(option, text, "a range as in " + std::to_string(least) + ".." + std::to_string(most));
    const int64_t first = number(text.substr(0, dots)), last = number(text.substr(dots + 2));
    if (first > last) refuse(option, text, "the smaller number first");
    for (int64_t n = first; n <= last; n *= 2) numbers.push_back(n);
    return numbers;
  }
  for (const std::string_view part : items_of(text)) numbers.push_back(number(part));
  return numbers;
}

std::vector<int64_t> numbers_by_dim(std::string_view text, std::string_view option, int64_t least, int64_t most) {
  std::vector<int64_t> numbers;
  for (const std::string_view part : parts_of(text, 'x')) {
    int64_t number = 0;
    if (!reads(part, number) || number < least || number > most)
      refuse(option, text, "numbers from " + std::to_string(least) + " to " + std::to_string(most) + " as in 4x4x3");
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace adjoin::cli
