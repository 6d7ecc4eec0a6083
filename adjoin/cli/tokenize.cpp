#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/line_reader.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/wrap.hpp"
#include "adjoin/data/token_folder.hpp"
#include "adjoin/data/tokenizer/text_vocabulary.hpp"

namespace adjoin::cli {
namespace {

constexpr size_t kLinesAtOnce = 64;

struct TokenizeOptions {
  std::string vocab, out;
  data::DocumentSource source;
  std::optional<int64_t> vocabulary_size;
};

constexpr int64_t kUsualSize = 8000;  // pieces of a vocabulary of subwords

/// Reads one text from each line of standard input and prints its ids as a line.
void print_ids(const std::string& vocab) {
  require_given(vocab, "--vocab");
  require(vocab != "subword",
          "--vocab subword: is learned from --data, and --out is needed, the folder for its tokens");
  const auto vocabulary = data::any_vocabulary(vocab);
  if (!prints()) return;
  LineReader input(STDIN_FILENO);
  for (std::vector<std::string> lines; !(lines = input.next(kLinesAtOnce)).empty();)
    for (const std::string& line : lines) {
      std::vector<int64_t> ids;
      vocabulary->encode_with_special_tokens(line, ids);
      std::puts(joined(ids, " ").c_str());
    }
}

std::shared_ptr<const data::TextVocabulary> make_vocabulary(const TokenizeOptions& options,
                                                            const data::Documents& documents) {
  const auto named = data::named_text_vocabulary(options.vocab);
  return named ? named : data::learn_subwords(documents, {.size = options.vocabulary_size.value_or(kUsualSize)});
}

void print_counts(const char* part, const data::DocumentCounts& counts) {
  char bytes_a_token[32];
  std::snprintf(bytes_a_token, sizeof bytes_a_token, "%.2f",
                static_cast<double>(counts.bytes) / static_cast<double>(counts.tokens));
  const std::string line = std::string(part) + " " + counted(counts.documents, "document") + ", " +
                           counted(counts.bytes, "byte") + ", " + counted(counts.tokens, "token") + " of " +
                           bytes_a_token + " bytes";
  std::puts(wrapped(line, 80, 0).c_str());
}

void write_tokens(const TokenizeOptions& options) {
  require_given(options.source.data, "--data");
  check_range("--vocabulary-size", options.vocabulary_size.value_or(kUsualSize), 259,
              1 << 20);  // with less there are only bytes
  require(!options.vocabulary_size || options.vocab.empty() || options.vocab == "subword",
          [&] { return "--vocabulary-size is for --vocab subword, and --vocab is " + options.vocab; });
  if (!prints()) return;
  data::require_free_place(options.out);
  const data::Documents documents(options.source);
  const data::FolderCounts counts =
      data::write_token_folder(options.out, documents, *make_vocabulary(options, documents));
  print_counts("train:", counts.train);
  print_counts("test: ", counts.test);
}

void run_tokenize(const TokenizeOptions& options) {
  if (!options.out.empty()) return write_tokens(options);
  require(options.source.data.empty() && options.source.test.empty() && options.source.text_column.empty() &&
              !options.vocabulary_size,
          "--out is needed, the folder for the tokens of --data and --test, and without it neither --text-column nor "
          "--vocabulary-size has an effect");
  print_ids(options.vocab);
}

}  // namespace

void add_tokenize(Program& program) {
  auto options = std::make_shared<TokenizeOptions>();
  add_command(
      program, program.app, "tokenize",
      "Write documents as tokens into a folder, to train a language model on. Without --out: read one text per line "
      "and "
      "print its ids, one line per text. A special token in a text is one id, and none are added around the text",
      [options] { run_tokenize(*options); },
      {text("--out", options->out, "DIR", "New folder for the tokens: vocab.model, train.tokens and test.tokens"),
       text("--data", options->source.data, "PATH",
            "Documents: the paragraphs of a text file, the rows of a .csv, .tsv or .jsonl file, each also .gz, the "
            ".txt files of a folder and the rows of its tables, all texts of a folder without these, or \"sample\" "
            "(required with --out)"),
       text("--test", options->source.test, "PATH",
            "Documents of the test part; without it the test part of a folder with train and test files, else the last "
            "5 % are held out"),
       text("--text-column", options->source.text_column, "NAME",
            "Name of the column of texts; without it \"text\" or \"review\""),
       text("--vocab", options->vocab, "FILE",
            "bytes; subword, which is learned from the training part; the vocab.model of another such folder; or a "
            "tokenizer of Hugging Face's transformers, its folder or its tokenizer.json [subword]. Without --out it is "
            "required, and may also be a WordPiece vocabulary, one piece per line"),
       number("--vocabulary-size", options->vocabulary_size,
              "Pieces of a vocabulary of subwords, the 256 bytes among them [" + std::to_string(kUsualSize) + "]")});
}

}  // namespace adjoin::cli
