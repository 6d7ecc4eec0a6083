#include "adjoin/program/save_state.hpp"

#include <caffe2/serialize/inline_container.h>

#include <map>
#include <utility>

#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/program/archive.hpp"
#include "adjoin/program/weights.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::program {

namespace {

using State = std::map<std::string, at::Tensor>;

/// The program's own file with these weights.
void write_program(const Program& net, const State& state, const std::filesystem::path& path) {
  const Archive archive(net.path());
  const auto changed = records_with(archive, "data/weights/model_weights_config.json", state);
  caffe2::serialize::PyTorchStreamWriter writer(path.string());
  for (const std::string& record : archive.records()) {
    if (record.starts_with(".data/") || record == "byteorder" || record == "version")
      continue;  // which it writes itself
    const auto found = changed.find(record);
    const std::string bytes = found == changed.end() ? archive.text(record) : found->second;
    writer.writeRecord(record, bytes.data(), bytes.size());
  }
  writer.writeEndOfFile();
}

/// Under all names, without what no state_dict has.
void write_state(const Program& net, State state, const std::filesystem::path& path) {
  for (const std::string& name : net.passing_buffers()) state.erase(name);
  for (const auto& [name, first] : net.shared_names()) state[name] = state.at(first);
  if (path.extension() != ".pt2") return train::write_safetensors(path, state, {{"format", "pt"}});
  std::filesystem::path unfinished = path;
  unfinished += ".adjoin-new";
  write_program(net, state, unfinished);
  train::publish_file(unfinished, path);
}

}  // namespace

void save_state(const Program& net, const std::filesystem::path& path) {
  State state;
  bool writes = true;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (is_global(tensor)) writes = piece_of(tensor).home->rank == 0;
    const at::Tensor all = whole(tensor).detach();  // on every worker
    if (writes) state[name] = all.contiguous();
  };
  for (const auto& item : net.named_parameters()) add(item.key(), item.value());
  for (const auto& item : net.named_buffers()) add(item.key(), item.value());
  if (writes) write_state(net, std::move(state), path);
}

void save_state(const Program& net, const std::vector<nn::Parameter>& pieces, const std::filesystem::path& path) {
  State state = nn::gather_state(pieces);
  if (!state.empty()) write_state(net, std::move(state), path);
}

}  // namespace adjoin::program
