#pragma once

#include <caffe2/serialize/inline_container.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace adjoin::test {

/// Writes relu(x * scale) as torch.export would, with x of any number of rows of 2, and "scale" [2] = 1, 2.
inline void write_small_program(const std::filesystem::path& path) {
  using Json = nlohmann::ordered_json;
  const Json rows = {
      {"as_expr", {{"expr_str", "Symbol('s0', positive=True, integer=True)"}, {"hint", {{"as_int", 3}}}}}};
  const auto number = [](int64_t value) { return Json{{"as_int", value}}; };
  const auto tensor = [](const char* name) { return Json{{"as_tensor", {{"name", name}}}}; };
  const auto meta = [&](const Json& sizes, const Json& strides, bool requires_grad) {
    return Json{{"dtype", 7},
                {"sizes", sizes},
                {"requires_grad", requires_grad},
                {"device", {{"type", "cpu"}}},
                {"strides", strides},
                {"storage_offset", number(0)},
                {"layout", 7}};
  };
  const auto node = [&](const char* target, const Json& inputs, const char* output) {
    return Json{{"target", target},
                {"inputs", inputs},
                {"outputs", Json::array({tensor(output)})},
                {"metadata", Json::object()}};
  };
  const auto input = [&](const char* name, const char* value) {
    return Json{{"name", name}, {"arg", tensor(value)}, {"kind", 1}};
  };
  const Json of_rows = meta(Json::array({rows, number(2)}), Json::array({number(2), number(1)}), true);
  const Json of_scale = meta(Json::array({number(2)}), Json::array({number(1)}), true);
  Json graph;
  graph["inputs"] = Json::array({tensor("p_scale"), tensor("x")});
  graph["outputs"] = Json::array({tensor("relu")});
  graph["nodes"] = Json::array(
      {node("torch.ops.aten.mul.Tensor", Json::array({input("self", "x"), input("other", "p_scale")}), "mul"),
       node("torch.ops.aten.relu.default", Json::array({input("self", "mul")}), "relu")});
  graph["tensor_values"] = {{"p_scale", of_scale}, {"x", of_rows}, {"mul", of_rows}, {"relu", of_rows}};
  const Json signature = {
      {"input_specs", Json::array({{{"parameter", {{"arg", {{"name", "p_scale"}}}, {"parameter_name", "scale"}}}},
                                   {{"user_input", {{"arg", tensor("x")}}}}})},
      {"output_specs", Json::array({{{"user_output", {{"arg", tensor("relu")}}}}})}};
  const Json program = {
      {"graph_module", {{"graph", graph}, {"signature", signature}, {"module_call_graph", Json::array()}}},
      {"range_constraints", Json::object()},
      {"schema_version", {{"major", 8}, {"minor", 20}}}};
  const Json weights = {
      {"config",
       {{"scale", {{"path_name", "weight_0"}, {"is_param", true}, {"use_pickle", false}, {"tensor_meta", of_scale}}}}}};
  const float values[] = {1, 2};
  caffe2::serialize::PyTorchStreamWriter writer(path.string());
  const auto write = [&](const std::string& record, const std::string& text) {
    writer.writeRecord(record, text.data(), text.size());
  };
  write("models/model.json", program.dump());
  write("data/weights/model_weights_config.json", weights.dump());
  writer.writeRecord("data/weights/weight_0", values, sizeof values);
  writer.writeEndOfFile();
}

}  // namespace adjoin::test
