#include "adjoin/report/write_report.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/report/page.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/output_file.hpp"

namespace adjoin::report {
namespace {

namespace fs = std::filesystem;

constexpr auto kMostPlanning = std::chrono::seconds(4);  // so that 8 long runs take less than 10 s in total

bool is_report(const fs::path& file) {
  std::string begin(page_mark().size(), '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(begin.data(), std::ssize(begin));
  return in && begin == page_mark();
}

void check_place(const fs::path& file) {
  require(!fs::is_directory(file), [&] { return "--out " + file.string() + ": is a folder, expected a file's name"; });
  require(!fs::is_regular_file(file) || is_report(file), [&] {
    return "--out " + file.string() + ": exists and is not a report of adjoin; choose another name or remove it";
  });
}

}  // namespace

void write_report(const std::vector<std::string>& folders, const std::string& file) {
  require(!folders.empty(), "a folder of a training run is needed");
  require(folders.size() <= kMostRuns, [&] {
    return "expected at most " + std::to_string(kMostRuns) + " runs in a report, got " + grouped(std::ssize(folders));
  });
  train::on_disk([&] { check_place(file); });
  for (const std::string& folder : folders) check_is_run(folder);
  train::AtomicFile page(file);  // fails at once if nothing can be written
  std::vector<Run> runs = read_runs(folders);
  page.file().write(page_of(runs, planned_memory(runs, kMostPlanning)));
  page.publish();
  for (const Run& run : runs) {
    const std::string damage = run.damage_text();
    train::say(run.name + ": " + run.state_text() + (damage.empty() ? "" : "; " + damage));
  }
  train::say("report of " + counted(std::ssize(runs), "run") + " in " + file);
}

}  // namespace adjoin::report
