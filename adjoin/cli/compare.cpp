#include "adjoin/train/compare.hpp"

#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"

namespace adjoin::cli {
namespace {

struct CompareOptions {
  std::string first, second;
  bool json = false;
};

std::string text_of(const train::DifferentTensor& tensor) {
  return (tensor.step > 0 ? "checkpoint of step " + std::to_string(tensor.step) + ": " : std::string()) + tensor.file +
         " " + printable(tensor.name) + "[" + joined(tensor.index) + "] is " + tensor.first + " and " + tensor.second +
         "; " + grouped(tensor.elements) + " of its " + counted(tensor.of_elements, "element") + " differ, and " +
         grouped(tensor.tensors) + " of " + counted(tensor.of_tensors, "tensor");
}

void run_compare(const CompareOptions& options) {
  const train::Comparison found = train::compare(options.first, options.second);
  Report report{options.json};
  report.json = {{"equal", found.are_equal()}, {"steps", found.steps}, {"checkpoints", found.checkpoints},
                 {"tensors", found.tensors},   {"number", nullptr},    {"tensor", nullptr},
                 {"alone", found.alone}};
  if (const auto& number = found.number) {
    const auto& [kind, key, step, one, other] = *number;
    report.json["number"] = {{"step", step}, {"kind", kind}, {"key", key}, {"first", one}, {"second", other}};
    report.text << "step " << step << (kind == "step" ? "" : " (" + kind + ")") << ": " << key << " is " << one
                << " and " << other << '\n';
  }
  if (const auto& tensor = found.tensor) {
    report.json["tensor"] = {{"step", tensor->step},         {"file", tensor->file},      {"name", tensor->name},
                             {"index", tensor->index},       {"first", tensor->first},    {"second", tensor->second},
                             {"elements", tensor->elements}, {"tensors", tensor->tensors}};
    report.text << text_of(*tensor) << '\n';
  }
  if (found.are_equal())
    report.text << "equal: " << counted(found.steps, "step") << ", " << counted(found.checkpoints, "checkpoint") << ", "
                << counted(found.tensors, "tensor") << '\n';
  if (found.alone > 0)
    report.text << found.alone
                << " of their lines, checkpoints and models are in one run alone, and were not compared\n";
  report.print();
  flush_output();
  if (!found.are_equal()) throw Error(options.first + " and " + options.second + " differ");
}

}  // namespace

void add_compare(Program& program) {
  auto options = std::make_shared<CompareOptions>();
  add_command(
      program, program.app, "compare",
      "Compare two runs, checkpoints or safetensors files bit by bit, and name the first step, tensor and element in "
      "which they differ; the exit code is then 1",
      [options] { run_compare(*options); },
      {text("first", options->first, "FIRST", "Output folder of a run, folder of a checkpoint, or safetensors file",
            /*is_required=*/true),
       text("second", options->second, "SECOND", "Another of the same kind", /*is_required=*/true),
       json_row(options->json, "object: equal, steps, checkpoints, tensors, number, tensor, alone")});
}

}  // namespace adjoin::cli
