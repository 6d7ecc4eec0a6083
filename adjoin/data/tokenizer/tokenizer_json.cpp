#include "adjoin/data/tokenizer/tokenizer_json.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace adjoin::data {
namespace {

constexpr size_t kDeepest = 32;  // nesting of brackets; a tokenizer's are 6 deep

/// How deep brackets are nested in a JSON text, not counting those in strings.
size_t depth_of(std::string_view text) {
  size_t depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\')
        ++at;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

/// The id in a file, if it is valid. `pieces`: their number; some ids may be unused, but not most.
size_t id_from(const TokenizerJson& value, size_t pieces, const std::string& what, const std::string& name) {
  const size_t end = 2 * pieces + 1024;
  require(value.is_number_integer() && value >= 0 && value < end, [&] {
    return name + ": the id of " + what + " is " + excerpt(value.dump()) + "; expected a number below " +
           std::to_string(end);
  });
  return value.get<size_t>();
}

void put_piece(std::vector<std::string>& pieces, size_t id, const std::string& piece, const std::string& name) {
  if (id >= pieces.size()) pieces.resize(id + 1);
  require(pieces[id].empty(), [&] {
    return name + ": " + in_quotes(pieces[id]) + " and " + in_quotes(piece) + " have the same id, " +
           std::to_string(id);
  });
  pieces[id] = piece;
}

void add_template_ids(const TokenizerJson& part, size_t size, const std::string& name, Surroundings& ids) {
  bool is_behind = false;
  for (const TokenizerJson& item : part.at("single")) {
    if (item.contains("Sequence")) {
      is_behind = true;
      continue;
    }
    const std::string token = item.at("SpecialToken").at("id").get<std::string>();
    for (const TokenizerJson& id : part.at("special_tokens").at(token).at("ids")) {
      require(id.is_number_integer() && id >= 0 && id < size, [&] {
        return name + ": the post-processor gives " + in_quotes(token) + " the id " + excerpt(id.dump()) +
               ", expected an id below " + std::to_string(size);
      });
      (is_behind ? ids.behind : ids.before).push_back(id.get<int64_t>());
    }
  }
}

int64_t id_of_pair(const TokenizerJson& pair, size_t size, const std::string& name) {
  const TokenizerJson& id = pair.at(1);
  require(id.is_number_integer() && id >= 0 && id < size, [&] {
    return name + ": the post-processor adds the id " + excerpt(id.dump()) + ", expected an id below " +
           std::to_string(size);
  });
  return id.get<int64_t>();
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr size_t kMost = 200;
  std::string line(text.substr(0, kMost));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return printable(line) + (text.size() > kMost ? "..." : "");
}

std::string in_quotes(std::string_view text) {
  return '"' + excerpt(text) + '"';
}

TokenizerJson parse_json(std::string_view text, const std::string& name,
                         const TokenizerJson::parser_callback_t& visit) {
  require(depth_of(text) <= kDeepest, [&] { return name + ": its JSON is nested too deeply for a tokenizer"; });
  return reading_json(name, [&] { return TokenizerJson::parse(text, visit); });
}

const TokenizerJson& field(const TokenizerJson& object, const char* key) {
  static const TokenizerJson nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

bool flag(const TokenizerJson& object, const char* key, bool otherwise) {
  const TokenizerJson& value = field(object, key);
  return value.is_null() ? otherwise : value.get_ref<const TokenizerJson::boolean_t&>();
}

std::string text_field(const TokenizerJson& object, const char* key) {
  const TokenizerJson& value = field(object, key);
  return value.is_null() ? std::string() : value.get<std::string>();
}

std::string type_of(const TokenizerJson& part) {
  return part.is_null() ? std::string() : part.at("type").get<std::string>();
}

void refuse_part(const std::string& name, const char* part, const std::string& type) {
  throw InvalidArgument(name + ": " + part + " " + in_quotes(type) + " is not supported");
}

std::vector<std::string> pieces_of(const TokenizerJson& vocabulary, const std::string& name) {
  require(vocabulary.is_object() && !vocabulary.empty(), [&] { return name + ": the tokenizer has no vocabulary"; });
  std::vector<std::string> pieces;
  pieces.reserve(vocabulary.size());
  for (const auto& [piece, id] : vocabulary.items()) {
    put_piece(pieces, id_from(id, vocabulary.size(), in_quotes(piece), name), piece, name);
  }
  return pieces;
}

std::vector<AddedToken> added_tokens_of(const TokenizerJson& tokenizer) {
  std::vector<AddedToken> tokens;
  for (const TokenizerJson& item : field(tokenizer, "added_tokens"))
    tokens.push_back({.content = item.at("content").get<std::string>(),
                      .id = item.at("id").get<int64_t>(),
                      .special = flag(item, "special"),
                      .lstrip = flag(item, "lstrip"),
                      .rstrip = flag(item, "rstrip"),
                      .single_word = flag(item, "single_word"),
                      .normalized = flag(item, "normalized")});
  return tokens;
}

std::vector<AddedToken> added_tokens_of(const TokenizerJson& tokenizer, std::vector<std::string>& pieces,
                                        const std::string& name) {
  std::vector<AddedToken> tokens = added_tokens_of(tokenizer);
  const size_t most = pieces.size() + tokens.size();
  std::unordered_map<std::string_view, size_t> known;
  std::vector<std::string> of_model = pieces;  // its strings do not move
  for (size_t id = 0; id < of_model.size(); ++id) known.emplace(of_model[id], id);
  for (const AddedToken& token : tokens) {
    require(!token.content.empty(), [&] { return name + ": an added token is empty"; });
    const size_t id = id_from(token.id, most, "added token " + in_quotes(token.content), name);
    const auto place = known.find(token.content);
    if (place == known.end())
      put_piece(pieces, id, token.content, name);
    else
      require(place->second == id, [&] {
        return name + ": added token " + in_quotes(token.content) + " has id " + std::to_string(id) + ", but " +
               std::to_string(place->second) + " in the vocabulary";
      });
  }
  return tokens;
}

TokenizerJson json_of(const AddedToken& token) {
  return {{"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
          {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
          {"special", token.special}};
}

Surroundings surroundings_of(const TokenizerJson& tokenizer, int64_t size, const std::string& name) {
  Surroundings ids;
  const auto end = static_cast<size_t>(size);
  for_each_part(field(tokenizer, "post_processor"), "processors", [&](const TokenizerJson& part) {
    const std::string type = type_of(part);
    if (type == "ByteLevel") return;  // it only changes the offsets of tokens, which are not used
    Surroundings its;
    if (type == "TemplateProcessing") {
      add_template_ids(part, end, name, its);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      its.before = {id_of_pair(part.at("cls"), end, name)};
      its.behind = {id_of_pair(part.at("sep"), end, name)};
    } else {
      refuse_part(name, "post_processor", type);
    }
    ids.before.insert(ids.before.begin(), its.before.begin(), its.before.end());
    ids.behind.insert(ids.behind.end(), its.behind.begin(), its.behind.end());
  });
  return ids;
}

}  // namespace adjoin::data
