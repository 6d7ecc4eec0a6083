#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/hugging_face/family.hpp"
#include "adjoin/store/read_piece.hpp"

namespace adjoin::train {

/// The tensors of a folder by their names in it: of model.safetensors, or of the files that model.safetensors.index.json names.
using WeightFiles = std::map<std::string, std::shared_ptr<const SafetensorsFile>>;

/// Opens the files; their headers are read and checked.
/// Throws: InvalidArgument where there are none, where the index names a file that is missing or outside of the folder, where
///         it names another file for a tensor than the one that has it, or where a tensor is in two files
WeightFiles open_weight_files(const std::filesystem::path& folder);

/// The weights of a model of a family.
struct FamilyWeights {
  std::map<std::string, StackedTensor> tensors;  ///< by our names
  std::vector<std::string> lacking;              ///< our names of the classifier's tensors that the folder lacks
  std::vector<std::string> left_out;             ///< beginnings of the names of other heads' tensors, which are ignored
};

/// Quickly checks the embedding and the number of blocks, before the model is described or texts are read.
/// Throws: InvalidArgument where the files differ from the configuration
void check_sizes(const Family& family, const WeightFiles& files, const Configuration& configuration);

/// Finds the weights of a model by the names that its family gives them, with or without the prefix of the trunk; norms also as
/// gamma and beta. `shapes`: the shapes of the model's tensors, by our names.
/// Throws: InvalidArgument where a weight is missing (except the classifier's), has another shape or is not floating-point;
///         where the folder has a trunk weight that the model lacks; or where it has separate scores although config.json ties
///         them to the embedding
FamilyWeights find_weights(const Family& family, const WeightFiles& files,
                           const std::map<std::string, std::vector<int64_t>>& shapes);

}  // namespace adjoin::train
