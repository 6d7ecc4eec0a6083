#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "adjoin/base/error.hpp"
#include "paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::data {

/// A temporary folder that is filled with the files of a data set.
class TemporaryFolder {
 public:
  std::string path(const std::string& name = "") const {
    return name.empty() ? folder_.path().string() : (folder_ / name).string();
  }

  /// Writes a file, and the folders to it, and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    test::put(folder_ / name, content);
    return path(name);
  }

  std::string write_gzipped(const std::string& name, const std::string& content) const {
    gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path(name);
  }

 private:
  test::TemporaryFolder folder_;
};

/// The message of the InvalidArgument that `call` throws.
template <class Call>
std::string refusal(Call&& call) {
  const std::string message = test::message_of<InvalidArgument>(call);
  if (message.empty()) ADD_FAILURE() << "expected InvalidArgument";
  return message;
}

/// A file of the real data: ADJOIN_DATA_DIR's, or that of the folder the tests were built for.
inline std::string real_data(const std::string& name) {
  const char* folder = std::getenv("ADJOIN_DATA_DIR");
  const std::string path = std::string(folder != nullptr ? folder : ADJOIN_SHARED_DATA) + "/" + name;
  if (!std::filesystem::exists(path))
    throw Error(
        path +
        " is missing: set ADJOIN_DATA_DIR to a folder with imdb/{train,test}.csv.gz (Large Movie Review "
        "Dataset v1.0, Maas et al. 2011, ai.stanford.edu/~amaas/data/sentiment), bert-base-uncased/vocab.txt "
        "(Devlin et al. 2019, github.com/google-research/bert) and mnist/t10k-{images-idx3,labels-idx1}-ubyte.gz "
        "(LeCun, Cortes, Burges, yann.lecun.com/exdb/mnist)");
  return path;
}

}  // namespace adjoin::data
