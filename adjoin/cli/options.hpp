#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "adjoin/cli/commands.hpp"
#include "adjoin/cli/option_rows.hpp"
#include "adjoin/comm/contract/host_memory.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::cli {

/// A subcommand with `--config FILE`: a TOML file whose keys are the option names without leading dashes. The command line has
/// priority over it. `run` is called after the file was read and the rows were checked.
/// Throws (when it runs): InvalidArgument for a file that is not TOML, an unknown key or a value of the wrong type.
CLI::App* add_command(Program& program, CLI::App& parent, const std::string& name, const std::string& description,
                      std::function<void()> run, std::initializer_list<OptionRow> rows = {});

/// Adds further options to a command, in a group of its help text if that has a name.
void add_options(Program& program, CLI::App& command, std::initializer_list<OptionRow> rows,
                 const std::string& group = "");

/// The configuration that options fill; resolve() completes it.
struct GivenConfiguration {
  train::Configuration values;
  const CLI::App* command = nullptr;

  /// The preset's configuration (with --resume the run's), changed by the options that were given, and validated.
  /// Throws: InvalidArgument, also for an option that a resumed run cannot change.
  train::Configuration resolve() const;
};

/// Adds an option for each field of train::Configuration whose group or name in its table is in `wanted` ("Model", "batch", …).
std::shared_ptr<GivenConfiguration> add_configuration_options(CLI::App& command,
                                                              std::initializer_list<std::string_view> wanted);

/// The table of presets for the end of a help text.
std::string preset_table();

/// Adds options such as --dp and --tp, --backend, --host-memory and --threads-per-rank, which write into the arguments.
void add_layout_options(CLI::App& command, const std::vector<std::pair<std::string_view, int64_t*>>& axes,
                        train::ModelUse& use);
/// --host-memory for commands that launch workers without a configuration.
OptionRow host_memory_row(HostMemory& use);

/// --model and --step for commands that use a model.
OptionRow model_row(std::string& folder);
OptionRow step_row(int64_t& step);

/// Throws: InvalidArgument "--NAME is needed" where a value is empty.
void require_given(const std::string& value, std::string_view option);

/// Writes what was printed to standard output.
/// Throws: IoError where that fails.
void flush_output();

/// Whether this process prints: the only process, or rank 0 of an MPI job.
bool prints();

}  // namespace adjoin::cli
