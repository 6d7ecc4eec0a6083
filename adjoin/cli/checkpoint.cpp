#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/train/checkpoint_report.hpp"

namespace adjoin::cli {
namespace {

struct CheckpointOptions {
  std::string run;
  bool verify = false, hash = false, json = false;
};

void run_checkpoint(const CheckpointOptions& options) {
  const auto checkpoints = train::report_checkpoints(options.run, options.verify);
  Report report{options.json};
  if (options.hash && !options.json) {
    const train::CheckpointReport& newest = checkpoints.front();
    require(newest.damage.empty(), newest.damage);
    require(!newest.hash.empty(), [&] { return newest.folder.string() + ": its files have no checksums"; });
    return write_line("step " + std::to_string(newest.step) + "  " + newest.hash);
  }
  report.table(report.json, "rrll", checkpoints.size(), [&](size_t i) -> Row {
    const train::CheckpointReport& c = checkpoints[i];
    const std::string state = !c.damage.empty() ? "damaged" : options.verify ? "verified" : "";
    return {{"step", c.step},
            {"=folder", c.folder.string()},
            {"bytes", c.bytes, grouped(c.bytes)},
            {"=hash", or_null(c.hash)},
            {"layout", c.layout, c.layout.empty() ? "-" : c.layout},
            {" =damage", or_null(c.damage), state}};
  });
  report.print();
  flush_output();
  std::string causes;
  for (const train::CheckpointReport& c : checkpoints)
    if (!c.damage.empty()) causes += (causes.empty() ? "" : "; ") + c.damage;
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
               flag("--hash", options->hash,
                    "Print one line, the newest one's step and a number of all bits of its weights and moments, which "
                    "is the same whatever the layout that saved them"),
               json_row(options->json, "list of objects: step, folder, bytes, hash, layout, damage")});
}

}  // namespace adjoin::cli
