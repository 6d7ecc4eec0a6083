#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/train/checkpoint_report.hpp"

namespace adjoin::cli {
namespace {

struct CheckpointOptions {
  std::string run;
  bool verify = false, json = false;
};

void print(const std::vector<train::CheckpointReport>& reports, bool verified) {
  std::vector<std::vector<std::string>> rows{{"step", "bytes", "layout", ""}};
  for (const train::CheckpointReport& report : reports)
    rows.push_back({std::to_string(report.step), grouped(report.bytes), report.layout.empty() ? "-" : report.layout,
                    !report.damage.empty() ? "damaged"
                    : verified             ? "verified"
                                           : ""});
  std::fputs(table_text(rows, "rrll").c_str(), stdout);
}

nlohmann::ordered_json to_json(const std::vector<train::CheckpointReport>& reports) {
  nlohmann::ordered_json checkpoints = nlohmann::ordered_json::array();
  for (const train::CheckpointReport& report : reports)
    checkpoints.push_back({{"step", report.step},
                           {"folder", report.folder.string()},
                           {"bytes", report.bytes},
                           {"layout", report.layout},
                           {"damage", or_null(report.damage)}});
  return checkpoints;
}

void run_checkpoint(const CheckpointOptions& options) {
  const auto reports = train::report_checkpoints(options.run, options.verify);
  if (prints() && options.json) write_line(json_line(to_json(reports)));
  if (prints() && !options.json) print(reports, options.verify);
  flush_output();
  std::string causes;
  for (const train::CheckpointReport& report : reports)
    if (!report.damage.empty()) causes += (causes.empty() ? "" : "; ") + report.damage;
  require(causes.empty(), causes);
}

}  // namespace

void add_checkpoint(Program& program) {
  auto options = std::make_shared<CheckpointOptions>();
  add_command(program, program.app, "checkpoint",
              "List the checkpoints of a training run: step, bytes, and the layout that saved them; "
              "damaged ones are marked, and the exit code is then 2",
              [options] { run_checkpoint(*options); },
              {text("run", options->run, "RUN", "Output folder of a training run", /*is_required=*/true),
               flag("--verify", options->verify, "Read all tensors and compare them with their checksums"),
               flag("--json", options->json, "Print one JSON list of objects: step, folder, bytes, layout, damage")});
}

}  // namespace adjoin::cli
