#include "adjoin/cli/options.hpp"
#include "adjoin/train/run.hpp"

namespace adjoin::cli {

void add_train(Program& program) {
  auto given = std::make_shared<std::shared_ptr<GivenConfiguration>>();
  CLI::App* command =
      add_command(program, program.app, "train", "Train a classifier of texts, or a decoder that writes them", [given] {
        const train::Configuration configuration = (*given)->resolve();
        require_given(configuration.data, "--data");
        require_given(configuration.out, "--out");
        train::train(configuration);
      });
  *given = add_configuration_options(*command, {"Data", "Model", "Training", "Layout", "Output"});
  command->footer(preset_table());
}

}  // namespace adjoin::cli
