#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin::data {

/// A folder for the files of one test, gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "adjoin_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary folder " + name);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ + "/" + name; }

  /// Writes a file, and the folders to it, and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  std::string write_gzipped(const std::string& name, const std::string& content) const {
    gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path(name);
  }

 private:
  std::string path_;
};

/// The message of the InvalidArgument that `call` throws.
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected InvalidArgument";
  return {};
}

/// A file of the real data: ADJOIN_DATA_DIR's, or that of the folder the tests were built for.
inline std::string real_data(const std::string& name) {
  const char* folder = std::getenv("ADJOIN_DATA_DIR");
  const std::string path = std::string(folder != nullptr ? folder : ADJOIN_SHARED_DATA) + "/" + name;
  if (!std::filesystem::exists(path))
    throw Error(
        path +
        " is missing: set ADJOIN_DATA_DIR to a folder with imdb/{train,test}.csv.gz (Large Movie Review "
        "Dataset v1.0, Maas et al. 2011, ai.stanford.edu/~amaas/data/sentiment) and bert-base-uncased/vocab.txt "
        "(Devlin et al. 2019, github.com/google-research/bert)");
  return path;
}

}  // namespace adjoin::data
