#include "adjoin/comm/values.hpp"

#include <array>
#include <numeric>

namespace adjoin {
namespace {

Buffer bytes_of(std::string& text) {
  return {text.data(), std::ssize(text), ElementType::uint8};
}

}  // namespace

std::vector<int64_t> numbers_of_all(int64_t mine, const Communicator& group) {
  std::vector<int64_t> one{mine}, all(static_cast<size_t>(group.size()));
  group.all_gather(buffer(one), buffer(all), std::vector<int64_t>(all.size(), 1));
  return all;
}

std::vector<std::string> texts_of_all(const std::string& mine, const Communicator& group) {
  const std::vector<int64_t> lengths = numbers_of_all(std::ssize(mine), group);
  std::string one = mine, all(static_cast<size_t>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})), '\0');
  group.all_gather(bytes_of(one), bytes_of(all), lengths);
  std::vector<std::string> texts;
  auto begin = all.begin();
  for (const int64_t length : lengths) {
    texts.emplace_back(begin, begin + length);
    begin += length;
  }
  return texts;
}

int64_t largest_of_all(int64_t mine, const Communicator& group) {
  group.all_reduce(buffer(mine), Reduction::max);
  return mine;
}

std::string text_from_rank(int rank, std::string mine, const Communicator& group) {
  std::array<int64_t, 1> length{std::ssize(mine)};
  group.broadcast(buffer(length), rank);
  mine.resize(static_cast<size_t>(length[0]));
  group.broadcast(bytes_of(mine), rank);
  return mine;
}

}  // namespace adjoin
