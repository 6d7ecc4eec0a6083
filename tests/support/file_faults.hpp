#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::test {

/// Variables for a program that is to meet the faults of tests/support/file_faults.cpp below `folder`, as a shell would
/// have them: `faults` are ADJOIN_FAULTS_… without that beginning, "KILL=7". AddressSanitizer wants to be loaded first
/// unless it is told otherwise; the preloaded library defines nothing that it needs.
inline std::vector<std::string> with_file_faults(const std::filesystem::path& folder,
                                                 const std::vector<std::string>& faults) {
  const std::filesystem::path library = ADJOIN_FILE_FAULTS;  // whose path LD_PRELOAD would cut at spaces
  std::vector<std::string> variables{
      "LD_LIBRARY_PATH=" + library.parent_path().string(), "LD_PRELOAD=" + library.filename().string(),
      "ADJOIN_FAULTS_FOLDER=" + folder.string(), "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"};
  for (const std::string& fault : faults) variables.push_back("ADJOIN_FAULTS_" + fault);
  return variables;
}

/// What is on the disk after each operation of a log that file_faults.cpp wrote, and what of it comes too early.
class FileOrder {
 public:
  explicit FileOrder(const std::string& log) {
    std::istringstream in(log);
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      std::string operation, path, to;
      std::getline(fields, operation, '\t');
      std::getline(fields, path, '\t');
      std::getline(fields, to, '\t');
      ++counts[operation];
      follow(operation, path, to);
    }
  }

  std::map<std::string, int> counts;    // of each operation
  std::vector<std::string> violations;  // in words

 private:
  using Path = std::filesystem::path;

  static bool is_within(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder + "/");
  }

  void follow(const std::string& operation, const std::string& path, const std::string& to) {
    const std::string parent = Path(path).parent_path();
    if (operation == "write") unsafe_.insert(path);
    if (operation == "sync") unsafe_.erase(path), renamed_in_.erase(path);
    if (operation == "open" || operation == "mkdir") unsafe_.insert(parent);
    if (operation == "remove" && path.find(".old") != path.npos)
      for (const std::string& folder : renamed_in_)
        if (is_within(path, folder)) violations.push_back(path + " is removed before " + folder + " is on the disk");
    if (operation == "rename") rename(path, to);
  }

  void rename(const std::string& from, const std::string& to) {
    const std::string folder = Path(to).parent_path();
    if (to.find(".old") != to.npos && renamed_in_.contains(folder))
      violations.push_back(from + " steps aside before what replaces it is on the disk");
    std::set<std::string> left;
    for (const std::string& path : unsafe_) {
      if (is_within(path, from)) violations.push_back(path + " is renamed before it is on the disk");
      left.insert(is_within(path, from) ? to + path.substr(from.size()) : path);
    }
    unsafe_ = left;
    unsafe_.insert(Path(to).parent_path());
    renamed_in_.insert(Path(to).parent_path());
  }

  std::set<std::string> unsafe_;      // files and folders whose contents a power cut could take
  std::set<std::string> renamed_in_;  // folders in which a rename could be undone by one
};

}  // namespace adjoin::test
