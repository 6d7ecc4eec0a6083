#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/cli/wrap.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/train/export_model.hpp"

namespace adjoin::cli {
namespace {

struct ExportOptions {
  train::ExportRequest request;
  std::string precision, shard_size;
  bool json = false;
};

/// "2G", "500M", "64K" or a number of bytes.
int64_t bytes_from(const std::string& text) {
  constexpr std::string_view kUnits = "KMG";
  int64_t unit = 1;
  std::string_view number = text;
  if (const size_t place = number.empty() ? kUnits.npos : kUnits.find(number.back()); place != kUnits.npos) {
    for (size_t i = 0; i <= place; ++i) unit *= 1000;
    number.remove_suffix(1);
  }
  constexpr int64_t kMost = int64_t{1} << 50;
  try {
    return unit * number_of(number, "--shard-size", 1, kMost / unit);
  } catch (const InvalidArgument&) {
    throw InvalidArgument("--shard-size is " + (text.empty() ? "empty" : text) +
                          ", expected at least 1 byte, as 500000, 500M or 2G");
  }
}

void run_export(ExportOptions& options) {
  train::ExportRequest& request = options.request;
  if (!options.precision.empty()) {
    train::Configuration asked;
    train::set(train::field_named("precision"), options.precision, asked);
    request.precision = asked.precision;
  }
  if (!options.shard_size.empty()) request.shard_bytes = bytes_from(options.shard_size);
  if (!prints()) return;
  const train::ExportResult result = train::export_model(request);
  Report report{options.json};
  report.json = {{"architecture", result.architecture},
                 {"tensors", result.tensors},
                 {"bytes", result.bytes},
                 {"files", result.files},
                 {"tokenizer", result.has_tokenizer},
                 {"out", request.out}};
  const std::string text =
      result.architecture + ": " + counted(result.tensors, "tensor") + " of " + counted(result.bytes, "byte") + " in " +
      counted(result.files, "file") +
      (result.has_tokenizer ? "" : ", without a tokenizer, because transformers has none like the model's") + ", in " +
      request.out;
  report.text << wrapped(shown_text(text), kPage, 0) << '\n';
  report.print();
  flush_output();
}

}  // namespace

void add_export(Program& program) {
  auto options = std::make_shared<ExportOptions>();
  add_command(program, program.app, "export",
              "Write a model into a folder that Hugging Face's transformers opens: config.json, safetensors and "
              "tokenizer; or the weights of a program as safetensors for Python's load_state_dict",
              [options] { run_export(*options); },
              {model_row(options->request.model), step_row(options->request.step),
               text("--out", options->request.out, "DIR",
                    "Folder to write, which is not there yet or is empty; of a program the safetensors file to write",
                    /*is_required=*/true),
               text("--precision", options->precision, "fp64|fp32|bf16|fp16",
                    "Numbers of the weights in the new folder [those of the model]"),
               text("--shard-size", options->shard_size, "BYTES",
                    "Most bytes in one file of weights, such as 500M or 2G, except for a single larger tensor; several "
                    "files get an index [one file]"),
               json_row(options->json, "object: architecture, tensors, bytes, files, tokenizer, out")});
}

}  // namespace adjoin::cli
