#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "adjoin/cli/commands.hpp"
#include "adjoin/comm/host_memory.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/grid_sizes.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::cli {

/// A subcommand with `--config FILE`: a TOML file whose keys are the option names without dashes in front. The command
/// line wins over it. `run` follows when the file was read.
/// Throws (when it runs): InvalidArgument for a file that is not TOML, an unknown key or a value of the wrong type.
CLI::App* add_command(Program& program, CLI::App& parent, const std::string& name, const std::string& description,
                      std::function<void()> run);

/// The configuration that options write into; finished by resolve.
struct GivenConfiguration {
  train::Configuration values;
  const CLI::App* command = nullptr;

  /// The preset's configuration, or with --resume that of the run, with the options that were given in its place,
  /// validated.
  /// Throws: InvalidArgument, also for an option that a resumed run cannot change.
  train::Configuration resolve() const;
};

/// One option for each field of train::Configuration whose group or name in its table is wanted ("Model", "batch", …).
std::shared_ptr<GivenConfiguration> add_configuration_options(CLI::App& command,
                                                              std::initializer_list<std::string_view> wanted);

/// The table of presets for the foot of a help text.
std::string preset_table();

/// --dp, --tp and their like, --backend, --host-memory and --threads-per-rank written into what is given.
void add_layout_options(CLI::App& command, const std::vector<std::pair<std::string_view, int64_t*>>& axes,
                        train::ModelUse& use);
/// --host-memory of those who launch workers without a configuration; take it with host_memory_of().
void add_host_memory(CLI::App& command, std::string& word);
HostMemory host_memory_of(const std::string& word);

/// --step of those who use a run's model.
void add_step(CLI::App& command, int64_t& step);

/// Throws: InvalidArgument "--NAME is needed" where a value is empty.
void require_given(const std::string& value, std::string_view option);

/// Gives standard output what was printed.
/// Throws: IoError where it takes it not.
void flush_output();

/// Whether this process prints: it is the only one, or rank 0 of an MPI job.
bool prints();

}  // namespace adjoin::cli
