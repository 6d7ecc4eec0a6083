#include "adjoin/program/save_state.hpp"

#include <algorithm>
#include <map>

#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::program {

void save_state(const Program& net, const std::filesystem::path& path) {
  std::map<std::string, at::Tensor> state;
  bool writes = true;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (is_global(tensor)) writes = piece_of(tensor).home->rank == 0;
    const at::Tensor all = whole(tensor).detach();  // on every worker
    if (writes) state[name] = all.contiguous();
  };
  for (const auto& item : net.named_parameters()) add(item.key(), item.value());
  for (const auto& item : net.named_buffers())
    if (std::ranges::find(net.passing_buffers(), item.key()) == net.passing_buffers().end())
      add(item.key(), item.value());
  if (!writes) return;
  for (const auto& [name, first] : net.shared_names()) state[name] = state.at(first);

  std::vector<train::TensorEntry> entries;
  for (const auto& [name, tensor] : state) entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  std::filesystem::path unfinished = path;
  unfinished += ".adjoin-new";
  train::make_safetensors(unfinished, entries, {{"format", "pt"}});
  train::SafetensorsFilling file(unfinished);
  for (const auto& [name, tensor] : state) file.write(name, 0, tensor.const_data_ptr(), tensor.numel());
  file.sync();
  train::publish_file(unfinished, path);
}

}  // namespace adjoin::program
