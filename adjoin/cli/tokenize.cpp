#include <unistd.h>

#include <cstdio>

#include "adjoin/cli/line_reader.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/data/wordpiece.hpp"

namespace adjoin::cli {
namespace {

constexpr size_t kLinesAtOnce = 64;

void run_tokenize(const std::string& vocab) {
  require_given(vocab, "--vocab");
  const data::WordPiece pieces = data::WordPiece::load(vocab);
  if (!prints()) return;
  std::string out;
  LineReader input(STDIN_FILENO);
  for (std::vector<std::string> lines; !(lines = input.next(kLinesAtOnce)).empty();)
    for (const std::string& line : lines) {
      out.clear();
      for (const int64_t id : pieces.encode(line)) out += (out.empty() ? "" : " ") + std::to_string(id);
      std::puts(out.c_str());
    }
}

}  // namespace

void add_tokenize(Program& program) {
  auto vocab = std::make_shared<std::string>();
  CLI::App* command = add_command(program, program.app, "tokenize",
                                  "Read one text a line and print its WordPiece ids a line, without special tokens",
                                  [vocab] { run_tokenize(*vocab); });
  command->add_option("--vocab", *vocab, "Vocabulary, one piece a line (required)")->option_text("FILE");
}

}  // namespace adjoin::cli
