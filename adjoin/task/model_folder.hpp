#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/data/class_names.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/store/read_piece.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The file with the names of the classes, in a run's folder.
inline constexpr const char* kClassesFile = "classes.json";

/// A folder that holds a model: the output folder of a run, or one that transformers' save_pretrained wrote.
class ModelFolder {
 public:
  explicit ModelFolder(std::filesystem::path path) : path_(std::move(path)) {}
  virtual ~ModelFolder() = default;
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Calls `use` with the place of the files: the folder, or the checkpoint of a run that is not finished, as read_checkpoint.
  /// Throws: InvalidArgument where the folder holds no model
  virtual void read(const std::function<void(const std::filesystem::path& place)>& use) const { use(path_); }

  /// The configuration of the model, as for an evaluation. Throws: InvalidArgument, with the name of the file
  virtual Configuration configuration(const std::filesystem::path& place) const = 0;
  /// The configuration of a training that begins with the model: its model, and the recipe for it.
  virtual Configuration beginning() const = 0;
  /// What limits the length of a text: "FOLDER/config.json has "max_position_embeddings": 512".
  virtual std::string limit_of_tokens() const = 0;
  /// What readers of tokenizers get: the first of these files that exists, else the last, or the whole of a folder of transformers.
  virtual std::filesystem::path tokenizer(const std::filesystem::path& place,
                                          std::initializer_list<const char*> names) const = 0;
  virtual data::ClassNames classes(const std::filesystem::path& place) const = 0;

  /// Finds the weights of a model with these parameters, which may be on the meta device. Allocates nothing of their size.
  /// Throws: InvalidArgument where they do not fit
  virtual void find_weights(const std::filesystem::path& place, const std::vector<nn::Parameter>& parameters) = 0;
  /// Throws: InvalidArgument where find_weights found only a part of the model, with which training may begin
  virtual void check_whole(const Configuration&) const {}
  /// The parameters whose weights find_weights did not find, and the beginnings of the names of weights that the model does not
  /// have.
  virtual std::vector<std::string> lacking() const { return {}; }
  virtual std::vector<std::string> left_out() const { return {}; }
  /// Reads each worker's pieces of weights. All workers of the world call it and read the same checkpoint.
  virtual void read_weights(const Communicator& world, const std::vector<nn::Parameter>& parameters) const = 0;
  /// The weights by our names. Those of a run are compared with their checksums.
  virtual std::map<std::string, StackedTensor> weights() const = 0;

 private:
  std::filesystem::path path_;
};

/// The output folder of a run, or one of its checkpoints.
std::unique_ptr<ModelFolder> run_folder(const CheckpointChoice& choice);

}  // namespace adjoin::train
