#pragma once

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::test {

/// A small model that transformers wrote, and what it computes of it (tests/tools/hugging_face_oracle.py).
struct PretrainedCase {
  std::string name, family, task;
  std::filesystem::path folder, model;
  std::vector<std::string> classes;
  nlohmann::json expected;  // of expected.json

  std::filesystem::path tensors() const { return folder / "expected.safetensors"; }
};

/// Runs the oracle with arguments of a shell. Gives what it prints. Throws: its error
inline std::string asked_of_oracle(const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string printed = (folder / "printed").string();
  const std::string command = "HF_HUB_OFFLINE=1 '" ADJOIN_PYTHON "' '" ADJOIN_SOURCE_DIR
                              "/tests/tools/hugging_face_oracle.py' " +
                              arguments + " > '" + printed + "' 2>&1";
  if (std::system(command.c_str()) != 0) throw std::runtime_error(contents_of(printed));
  return contents_of(printed);
}

/// Those that the oracle has written into a folder.
inline std::vector<PretrainedCase> read_cases(const std::filesystem::path& folder) {
  std::vector<PretrainedCase> read;
  for (const auto& json : nlohmann::json::parse(contents_of(folder / "cases.json"))) {
    PretrainedCase one{json.at("name"), json.at("family"), json.at("task"), folder / json.at("folder"), {}, {}, {}};
    one.model = one.folder / "model";
    if (json.contains("classes")) json.at("classes").get_to(one.classes);
    one.expected = nlohmann::json::parse(contents_of(one.folder / "expected.json"));
    read.push_back(std::move(one));
  }
  return read;
}

/// Those of some names, or all, written into a folder.
inline std::vector<PretrainedCase> write_cases(const std::filesystem::path& folder, const std::string& only = "") {
  asked_of_oracle("write '" + folder.string() + "'" + (only.empty() ? "" : " --only " + only));
  return read_cases(folder);
}

/// All of them: of the folder that ADJOIN_PRETRAINED_CASES names, or written once a program.
inline const std::vector<PretrainedCase>& pretrained_cases() {
  static const TemporaryFolder own;
  static const std::vector<PretrainedCase> cases = [] {
    const char* written = std::getenv("ADJOIN_PRETRAINED_CASES");
    return written ? read_cases(written) : write_cases(own.path());
  }();
  return cases;
}

}  // namespace adjoin::test
