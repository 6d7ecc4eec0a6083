#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/train/hugging_face/family.hpp"
#include "adjoin/train/storage/read_piece.hpp"

namespace adjoin::train {

/// The tensors of a folder by their names in it: of model.safetensors, or of the files that model.safetensors.index.json names.
using WeightFiles = std::map<std::string, std::shared_ptr<const SafetensorsFile>>;

/// Opens them; their headers are read and checked.
/// Throws: InvalidArgument where there are none, the index names a file outside of the folder, one that lacks, or another place
///         than a tensor has, or a tensor stands in two files
WeightFiles open_weight_files(const std::filesystem::path& folder);

/// The weights of a model of a family.
struct FamilyWeights {
  std::map<std::string, StackedTensor> tensors;  ///< by our names
  std::vector<std::string> lacking;              ///< our names of those of the classifier that the folder does not have
  std::vector<std::string> left_out;             ///< beginnings of the names of other heads' tensors
};

/// A quick look at the embedding and the number of blocks, before the model is described or texts are read.
/// Throws: InvalidArgument where the files have others than the configuration says
void check_sizes(const Family& family, const WeightFiles& files, const Configuration& configuration);

/// Finds the weights of a model by the names that its family gives them, with the prefix of the trunk or without, norms also as
/// gamma and beta. `shapes`: those of the model's tensors by our names.
/// Throws: InvalidArgument where one lacks but the classifier's, has another shape, is not of floating-point numbers, or where
///         the folder has one of the trunk that the model lacks, or has scores of their own where config.json ties them to the
///         embedding
FamilyWeights find_weights(const Family& family, const WeightFiles& files,
                           const std::map<std::string, std::vector<int64_t>>& shapes);

}  // namespace adjoin::train
