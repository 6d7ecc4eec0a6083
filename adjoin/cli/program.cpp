#include "adjoin/base/text.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/program/description.hpp"

namespace adjoin::cli {
namespace {

struct ProgramOptions {
  std::string file;
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
               json_row(options->json,
                        "an object: file, elements, eval, inputs, outputs, parameters, buffers, shared, operators")});
}

}  // namespace adjoin::cli
