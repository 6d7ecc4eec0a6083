#include "adjoin/base/text.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/program/description.hpp"

namespace adjoin::cli {
namespace {

struct ProgramOptions {
  std::string file;
  std::optional<int64_t> dp, tp;
  bool json = false;
};

/// `names`: the heading of the first column, as Cell has it.
void add_tensors(Report& report, const char* key, const char* names,
                 const std::vector<program::Description::Tensor>& tensors) {
  Json& place = report.json[key] = Json::array();
  if (tensors.empty()) return;
  report.table(place, "lll", tensors.size(), [&](size_t i) -> Row {
    const auto& tensor = tensors[i];
    return {{names, tensor.name}, {"type", tensor.type}, {"sizes", tensor.sizes, "[" + joined(tensor.sizes) + "]"}};
  });
  report.text << "\n";
}

constexpr int64_t kMostOfAxis = 1024;

void add_cuts(Report& report, const ProgramOptions& options) {
  const int dp = static_cast<int>(options.dp.value_or(1)), tp = static_cast<int>(options.tp.value_or(1));
  const program::FoundCuts found = program::cuts_of(options.file, dp, tp);
  Json& place = report.json["layout"];
  place["dp"] = dp;
  place["tp"] = tp;
  place["operation_bytes"] = found.of_operations;
  place["gradient_bytes"] = found.of_gradients;
  report.text << "\non dp " << dp << " x tp " << tp << " a rank sends in a step, at the sizes of the example, "
              << counted(static_cast<int64_t>(found.of_operations), "byte") << " for operations, forward and back, and "
              << counted(static_cast<int64_t>(found.of_gradients), "byte") << " for the sums of gradients\n\n";
  report.table(place["cuts"], "ll", found.weights.size(), [&](size_t i) -> Row {
    const auto& [name, cut] = found.weights[i];
    return {{"parameter=name", name}, {"cut", cut.empty() ? "whole" : cut}};
  });
}

void run_program_command(const ProgramOptions& options) {
  const program::Description found = program::describe(options.file);
  Report report{options.json};
  report.json["file"] = found.path;
  report.json["elements"] = found.elements;
  report.json["eval"] = found.eval_mode;
  report.json["outputs"] = found.outputs;
  report.text << found.path << ": " << counted(static_cast<int64_t>(found.parameters.size()), "parameter") << " of "
              << counted(found.elements, "element") << "; eval mode: " << found.eval_mode << "\n\n";
  add_tensors(report, "inputs", "input=name", found.inputs);
  add_tensors(report, "parameters", "parameter=name", found.parameters);
  add_tensors(report, "buffers", "buffer=name", found.buffers);
  Json& shared = report.json["shared"] = Json::object();
  for (const auto& [name, first] : found.shared) {
    shared[name] = first;
    report.text << name << " is " << first << "\n\n";
  }
  report.table(report.json["operators"], "lrl", found.operators.size(), [&](size_t i) -> Row {
    const auto& one = found.operators[i];
    return {{"operator=name", one.name}, {"times=count", one.count}, {"runs on global tensors=runs", one.runs}};
  });
  if (options.dp || options.tp) add_cuts(report, options);
  report.print();
}

}  // namespace

void add_program(Program& program) {
  auto options = std::make_shared<ProgramOptions>();
  add_command(program, program.app, "program",
              "Show a program that Python exported: its inputs, parameters and operators, and how each operator runs "
              "on tensors that are cut over ranks",
              [options] { run_program_command(*options); },
              {text("file", options->file, "FILE", "A .pt2 file of adjoin.export_program or torch.export.save",
                    /*is_required=*/true),
               number("--dp", options->dp, "Tell what training would move whose samples are cut over so many ranks", 1,
                      kMostOfAxis),
               number("--tp", options->tp, "Tell where weights would be cut over so many ranks, and what moves then", 1,
                      kMostOfAxis),
               json_row(options->json,
                        "an object: file, elements, eval, inputs, outputs, parameters, buffers, shared, operators; "
                        "layout with --dp or --tp")});
}

}  // namespace adjoin::cli
