// Times adjoin's tokenizing of reviews on one thread, for bench/peers/tokenizers_speed.py, which also times other tokenizers.
//
// usage: bench_tokenizers TOKENIZER TEXTS     TEXTS: for each text its 32-bit length and its bytes
// For each line on standard input it tokenizes all texts and prints the seconds and the number of ids.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "adjoin/data/tokenizer/text_vocabulary.hpp"

namespace {

std::vector<std::string> read_texts(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> texts;
  for (size_t at = 0; at + 4 <= all.size();) {
    uint32_t length = 0;
    std::memcpy(&length, all.data() + at, sizeof length);
    texts.push_back(all.substr(at + 4, length));
    at += 4 + length;
  }
  return texts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: bench_tokenizers TOKENIZER TEXTS\n", stderr), 2;
  const auto vocabulary = adjoin::data::any_vocabulary(argv[1]);
  const std::vector<std::string> texts = read_texts(argv[2]);
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    size_t ids = 0;
    for (const std::string& text : texts) ids += vocabulary->encode(text).size();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("%.6f %zu\n", seconds.count(), ids);
    std::fflush(stdout);
  }
}
