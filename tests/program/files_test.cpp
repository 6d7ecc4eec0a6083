#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>

#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "tests/program/cases.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/mutations.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/scale.hpp"

namespace adjoin::program {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;
using Records = std::map<std::string, std::string>;

Records records_of(const fs::path& path) {
  caffe2::serialize::PyTorchStreamReader reader(path.string());
  Records records;
  for (const std::string& name : reader.getAllRecords()) {
    const auto [bytes, size] = reader.getRecord(name);
    records[name] = std::string(static_cast<const char*>(bytes.get()), size);
  }
  return records;
}

void write_records(const fs::path& path, const Records& records) {
  fs::remove(path);
  caffe2::serialize::PyTorchStreamWriter writer(path.string());
  for (const auto& [name, bytes] : records)
    if (!name.starts_with(".data/") && name != "byteorder") writer.writeRecord(name, bytes.data(), bytes.size());
  writer.writeEndOfFile();
}

const std::string kGraph = "models/model.json", kWeights = "data/weights/model_weights_config.json";

class ProgramFiles : public ::testing::Test {
 public:
  /// The error of loading a file whose JSON was changed.
  std::string error_of(const std::string& name, const std::string& record, const std::function<void(Json&)>& change) {
    Records records = records_of(cases() / (name + "-plain.pt2"));
    Json json = Json::parse(records.at(record));
    change(json);
    records[record] = json.dump();
    write_records(file, records);
    return error();
  }
  /// The same of one node.
  std::string error_of_node(const std::string& name, const std::string& target,
                            const std::function<void(Json&)>& change) {
    return error_of(name, kGraph, [&](Json& json) {
      for (Json& node : json["graph_module"]["graph"]["nodes"])
        if (node["target"] == target) return change(node);
      FAIL() << "there is no " << target;
    });
  }
  std::string error() const {
    const std::string error = testing::thrown_by<InvalidArgument>([&] { load_program(file); });
    EXPECT_THAT(error, HasSubstr(file.string()));
    EXPECT_THAT(error, Not(HasSubstr("\n")));
    return error;
  }
  static Json& argument(Json& node, const std::string& name) {
    for (Json& input : node["inputs"])
      if (input["name"] == name) return input["arg"];
    node["inputs"].push_back({{"name", name}, {"arg", Json()}, {"kind", 1}});
    return node["inputs"].back()["arg"];
  }

  test::TemporaryFolder folder;
  const fs::path file = folder / "bad.pt2";
};

TEST_F(ProgramFiles, that_are_no_programs_are_refused) {
  EXPECT_THAT(error(), HasSubstr("cannot be read"));
  test::put(file, "");
  EXPECT_THAT(error(), HasSubstr("not a whole file"));
  test::put(file, "some text");
  EXPECT_THAT(error(), HasSubstr("not a whole file"));
  const std::string sound = test::contents_of(cases() / "cnn.pt2");
  for (const size_t part : {size_t{30}, sound.size() / 2, sound.size() - 1}) {
    test::put(file, sound.substr(0, part));
    EXPECT_THAT(error(), HasSubstr("not a whole file"));
  }
  Records records = records_of(cases() / "cnn-plain.pt2");
  Records none = records;
  none.erase(kGraph);
  write_records(file, none);
  EXPECT_THAT(error(), HasSubstr("no program of torch.export"));
  none = records;
  none.erase("data/weights/weight_0");
  write_records(file, none);
  EXPECT_THAT(error(), HasSubstr("no record data/weights/weight_0"));
  none = records;
  none[kGraph] = none[kGraph].substr(0, 1000);
  write_records(file, none);
  EXPECT_THAT(error(), HasSubstr("models/model.json: it is not JSON"));
}

TEST_F(ProgramFiles, of_other_versions_or_operators_are_refused) {
  EXPECT_THAT(error_of("cnn", kGraph, [](Json& json) { json["schema_version"]["major"] = 9; }),
              HasSubstr("its schema has version 9, expected 8"));
  const std::string relu = "torch.ops.aten.relu.default";
  for (const auto& [target, why] :
       {std::pair("torch.ops.aten.no_such.default", "LibTorch has no operator aten.no_such.default"),
        std::pair("torch.ops.own.relu.default", "LibTorch has no operator own.relu.default"),
        std::pair("torch.ops.aten.from_file.default", "may not be run from a file"),
        std::pair("torch.ops.aten.set_.source_Tensor", "may not be run from a file"),
        std::pair("torch.ops.aten.resize_.default", "may not be run from a file"),
        std::pair("torch.ops.aten._foreach_add_.Scalar", "may not be run from a file"),
        std::pair("torch.ops.aten.relu.out", "may not be run from a file"),
        std::pair("torch.ops.higher_order.cond", "control flow"), std::pair("relu", "expected an operator")})
    EXPECT_THAT(error_of_node("cnn", relu, [&](Json& node) { node["target"] = target; }), HasSubstr(why));
}

TEST_F(ProgramFiles, whose_weights_lack_bytes_are_refused) {
  const auto change = [](const char* key, const Json& value) {
    return [=](Json& json) { json["config"]["head.weight"]["tensor_meta"][key] = value; };
  };
  const Json many = {{"as_int", int64_t{1} << 62}};
  EXPECT_THAT(error_of("cnn", kWeights, change("sizes", {{{"as_int", 5}}, {{"as_int", 129}}})),
              HasSubstr("tensor \"head.weight\": its sizes need 641 elements, and the record"));
  EXPECT_THAT(error_of("cnn", kWeights, change("sizes", {many, many})), HasSubstr("beyond 2^63"));
  EXPECT_THAT(error_of("cnn", kWeights, change("strides", {many, {{"as_int", 1}}})), HasSubstr("beyond 2^63"));
  EXPECT_THAT(error_of("cnn", kWeights, change("storage_offset", {{"as_int", 1}})), HasSubstr("641 elements"));
  EXPECT_THAT(error_of("cnn", kWeights, change("storage_offset", {{"as_int", -1}})), HasSubstr("offset"));
  EXPECT_THAT(error_of("cnn", kWeights, change("dtype", 9)), HasSubstr("type 9"));
  EXPECT_THAT(error_of("cnn", kWeights, change("dtype", 7)), HasSubstr("not as the graph declares it"));
  EXPECT_THAT(error_of("cnn", kWeights, [](Json& json) { json["config"]["head.weight"]["use_pickle"] = true; }),
              HasSubstr("Python object"));
  EXPECT_THAT(error_of("cnn", kWeights, [](Json& json) { json["config"].erase("head.weight"); }),
              HasSubstr("lacks the tensor \"head.weight\""));
  EXPECT_THAT(error_of("cnn", kWeights,
                       [](Json& json) {
                         json["config"]["head.weight"]["tensor_meta"]["strides"] = {{{"as_int", 0}}, {{"as_int", 0}}};
                       }),
              HasSubstr("one over another"));
}

TEST_F(ProgramFiles, that_contradict_themselves_are_refused) {
  EXPECT_THAT(error_of_node("cnn", "torch.ops.aten.conv2d.default",
                            [](Json& node) {
                              argument(node, "padding") = {{"as_ints", {1 << 20, 1}}};
                            }),
              HasSubstr("aten.conv2d in body.0: the file declares conv2d as Double [3, 6, 8, 8], and it is Double [3, "
                        "6, 2097158, 8]"));
  EXPECT_THAT(error_of_node("cnn", "torch.ops.aten.flatten.using_ints",
                            [](Json& node) {
                              argument(node, "start_dim") = {{"as_int", 0}};
                            }),
              HasSubstr("the file declares flatten as Double [3, 128], and it is Double [384]"));
  EXPECT_THAT(error_of_node("cnn", "torch.ops.aten.flatten.using_ints",
                            [](Json& node) {
                              argument(node, "start_dim") = {{"as_int", 7}};
                            }),
              HasSubstr("aten.flatten.using_ints: Dimension out of range"));
  EXPECT_THAT(error_of_node("cnn", "torch.ops.aten.relu.default",
                            [](Json& node) {
                              argument(node, "self") = {{"as_tensor", {{"name", "linear"}}}};
                            }),
              HasSubstr("the value \"linear\" is read before it is made"));
  EXPECT_THAT(error_of_node("cnn", "torch.ops.aten.relu.default",
                            [](Json& node) {
                              argument(node, "self") = {{"as_string", "x"}};
                            }),
              HasSubstr("the argument self is no Tensor"));
  EXPECT_THAT(error_of_node("cnn", "torch.ops.aten.relu.default",
                            [](Json& node) {
                              argument(node, "size") = {{"as_int", 1}};
                            }),
              HasSubstr("no argument \"size\""));
  EXPECT_THAT(error_of_node("transformer", "torch.ops.aten.ones.default",
                            [](Json& node) {
                              argument(node, "size") = {{"as_ints", {1 << 30, 1 << 30}}};
                            }),
              HasSubstr("the file declares ones as Bool [7, 7], and it is Bool [1073741824, 1073741824]"));
  EXPECT_THAT(error_of("cnn", kGraph,
                       [](Json& json) { json["graph_module"]["graph"]["tensor_values"]["linear"]["dtype"] = 7; }),
              HasSubstr("declares linear as Float"));
  EXPECT_THAT(error_of("cnn", kGraph, [](Json& json) { json["graph_module"]["signature"]["input_specs"].erase(0); }),
              HasSubstr("another number of inputs"));
}

/// Loads and runs mutations, each of which must be refused as the caller's mistake or run, soon and in little memory.
void expect_refused_or_run(const fs::path& file, const std::string& name, int64_t count,
                           const std::function<void(test::Mutations&)>& write) {
  SCOPED_TRACE(name);
  constexpr double kLongest = 2;  // seconds of a core's time
  constexpr int64_t kMostBytes = 128 << 20;
  const Expected expected(cases() / (name + ".safetensors"));
  const auto inputs = as_values(expected.all("input"));
  load_program(cases() / (name + ".pt2"))->run(inputs);
  const int64_t bytes_before = test::most_bytes_so_far();
  int64_t refused = 0;
  for (int64_t seed = 0; seed < count && !::testing::Test::HasFailure(); ++seed) {
    test::Mutations mutations(static_cast<uint64_t>(seed));
    write(mutations);
    const std::clock_t begin = std::clock();
    try {
      const auto net = load_program(file);
      net->run(inputs);
      net->eval();
      net->run(inputs);
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), Not(HasSubstr("\n"))) << "seed " << seed;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what();
    }
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kLongest) << "seed " << seed;
  }
  const int64_t most = testing::kIsSanitized ? kMostBytes * 8 : kMostBytes;  // AddressSanitizer keeps what is freed
  EXPECT_LT(test::most_bytes_so_far() - bytes_before, most);
  EXPECT_GT(refused, count / 5);
  EXPECT_LT(refused, count) << "some change nothing that matters";
}

TEST_F(ProgramFiles, that_are_mutated_are_refused_or_run) {
  for (const auto& [name, record, count] :
       {std::tuple("cnn-plain", kGraph, 80), std::tuple("cnn-plain", kWeights, 40),
        std::tuple("transformer-plain", kGraph, 50), std::tuple("modes", std::string("models/eval.json"), 50)}) {
    const Records sound = records_of(cases() / (std::string(name) + ".pt2"));
    const std::string of = std::string(name).substr(0, std::string(name).find('-'));
    expect_refused_or_run(file, of, count * test::scale(), [&, &name = record](test::Mutations& mutations) {
      Records records = sound;
      records[name] = mutations.of(records[name]);
      write_records(file, records);
    });
  }
  const std::string sound = test::contents_of(cases() / "cnn-plain.pt2");
  expect_refused_or_run(file, "cnn", 100 * test::scale(),
                        [&](test::Mutations& mutations) { test::put(file, mutations.with_other_bytes(sound)); });
}

}  // namespace
}  // namespace adjoin::program
