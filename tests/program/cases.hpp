#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "adjoin/comm/values.hpp"
#include "adjoin/program/program.hpp"
#include "adjoin/store/safetensors.hpp"
#include "paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::program {

/// What PyTorch computes of one module (tests/tools/programs_oracle.py).
class Expected {
 public:
  explicit Expected(const std::filesystem::path& path) : file_(path) {}

  at::Tensor operator[](const std::string& name) const { return file_.read(name); }
  bool contains(const std::string& name) const { return file_.contains(name); }
  /// "input.0", "input.1", …
  std::vector<at::Tensor> all(const std::string& kind) const {
    std::vector<at::Tensor> tensors;
    for (int i = 0; contains(kind + "." + std::to_string(i)); ++i)
      tensors.push_back(file_.read(kind + "." + std::to_string(i)));
    return tensors;
  }

 private:
  train::SafetensorsFile file_;
};

/// Lets Python write programs, all or those of some names. Throws: what Python says
inline void write_cases(const std::filesystem::path& folder, const std::string& names = "") {
  const std::string printed = (folder / "printed").string();
  const std::string command = "OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 '" ADJOIN_PYTHON "' '" ADJOIN_SOURCE_DIR
                              "/tests/tools/programs_oracle.py' '" +
                              folder.string() + "' " + names + " > '" + printed + "' 2>&1";
  if (std::system(command.c_str()) != 0) throw std::runtime_error(test::contents_of(printed));
}

/// The folder with all of them: that which ADJOIN_PROGRAM_CASES names, or one that is written once a program.
inline const std::filesystem::path& cases() {
  static const test::TemporaryFolder own;
  static const std::filesystem::path folder = [] {
    if (const char* written = std::getenv("ADJOIN_PROGRAM_CASES")) return std::filesystem::path(written);
    write_cases(own.path());
    return own.path();
  }();
  return folder;
}

/// The same for all ranks of a world: written by the first of a job.
inline std::filesystem::path cases(const Communicator& world) {
  return text_from_rank(0, world.rank() == 0 ? cases().string() : "", world);
}

inline std::vector<c10::IValue> as_values(const std::vector<at::Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

/// The sum of all floating results, weighted from -1 to 1; `whole` gives the whole of each.
inline at::Tensor loss_of(const parallel::Bundle& results) {
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (const auto& [name, x] : results.items())
    if (x.is_floating_point())
      loss = loss + (x.to(at::kDouble) * at::linspace(-1, 1, x.numel(), at::kDouble).view(x.sizes())).sum();
  return loss;
}

}  // namespace adjoin::program
