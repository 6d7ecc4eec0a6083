#include "adjoin/report/write_report.hpp"

#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/report/watch.hpp"

namespace adjoin::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out = "report.html";
};

}  // namespace

void add_report(Program& program) {
  auto options = std::make_shared<ReportOptions>();
  add_command(program, program.app, "report",
              "Write one HTML page about training runs: their curves in common charts, each rank's time and memory, "
              "layout, configuration and machine",
              [options] {
                require(!options->runs.empty(), "RUN is needed");
                if (prints()) report::write_report(options->runs, options->out);
              },
              {texts("runs", options->runs, "RUN ...", "Output folders of training runs (required)"),
               file("--out", options->out, "The page; an earlier report there is replaced")});
}

void add_watch(Program& program) {
  auto folder = std::make_shared<std::string>();
  add_command(program, program.app, "watch",
              "Follow a training run from another terminal until it ends; the exit code is 1 if it ends without a "
              "result",
              [folder] {
                if (prints()) report::watch(*folder);
              },
              {text("run", *folder, "RUN", "Output folder of the training run", /*is_required=*/true)});
}

}  // namespace adjoin::cli
