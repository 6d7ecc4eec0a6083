#include "adjoin/cli/options.hpp"
#include "adjoin/train/commands.hpp"

namespace adjoin::cli {

void add_train(Program& program) {
  auto given = std::make_shared<std::shared_ptr<GivenConfiguration>>();
  auto is_dry = std::make_shared<bool>(false);
  CLI::App* command = add_command(program, program.app, "train",
                                  "Train a classifier of texts, or a decoder that writes them", [given, is_dry] {
                                    const train::Configuration configuration = (*given)->resolve();
                                    require_given(configuration.data, "--data");
                                    if (*is_dry) return train::dry_run(configuration);
                                    require_given(configuration.out, "--out");
                                    train::train(configuration);
                                  });
  *given = add_configuration_options(*command, {"Data", "Model", "Training", "Layout", "Output"});
  command
      ->add_flag("--dry-run", *is_dry,
                 "Train nothing and write nothing but the cache of tokens: print the plan, and each rank's parameters, "
                 "memory and collective operations of a step, measured part by part")
      ->group("Output");
  command->footer(preset_table());
}

}  // namespace adjoin::cli
