#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/tokenizer/added_tokens.hpp"

namespace adjoin::data {

using TokenizerJson = nlohmann::json;

/// The field in the "model" of a tokenizer.json that is true where special tokens in a text are ordinary text
/// (split_special_tokens). The tokenizers package ignores it.
inline constexpr const char* kSplitsField = "adjoin_splits_special_tokens";

/// At most 200 bytes of a text that may come from a file, on one line.
std::string excerpt(std::string_view text);
/// The same between quotes: "Precompiled".
std::string in_quotes(std::string_view text);

/// Calls `read`; errors of nlohmann::json become an error about the file `name`, in one line.
/// Throws: InvalidArgument that begins with `name`
template <class Read>
auto reading_json(const std::string& name, Read&& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(name + ": " + excerpt(error.what()));
  }
}

/// The value of a JSON text, whose brackets may not be nested deeper than in any tokenizer.
/// `visit`: called while the text is parsed, as nlohmann::json calls it.
/// Throws: InvalidArgument that begins with `name` where the text is not valid
TokenizerJson parse_json(std::string_view text, const std::string& name,
                         const TokenizerJson::parser_callback_t& visit = nullptr);

/// A field of an object; null where it has no such key.
const TokenizerJson& field(const TokenizerJson& object, const char* key);

/// The boolean in a field; `otherwise` where it is missing or null. Throws: InvalidArgument where it is not a boolean
bool flag(const TokenizerJson& object, const char* key, bool otherwise = false);

/// A text field; "" where it is missing or null.
std::string text_field(const TokenizerJson& object, const char* key);

/// The field "type" of a part of a tokenizer; "" if the part is null.
std::string type_of(const TokenizerJson& part);

/// Throws an error about an unsupported part of a tokenizer, with its name: normalizer "Precompiled".
[[noreturn]] void refuse_part(const std::string& name, const char* part, const std::string& type);

/// Calls `visit` with the parts of a part, in order: with the members of a Sequence, or with the part itself; not at all for
/// null. `members`: the field of a Sequence that holds its members.
template <class Visit>
void for_each_part(const TokenizerJson& part, const char* members, Visit&& visit) {
  if (part.is_null()) return;
  if (type_of(part) != "Sequence") return visit(part);
  for (const TokenizerJson& member : part.at(members)) for_each_part(member, members, visit);
}

/// The pieces of a model's vocabulary by id; "" where an id has none.
/// Throws: InvalidArgument where two have one id, or an id is far beyond their number
std::vector<std::string> pieces_of(const TokenizerJson& vocabulary, const std::string& name);

/// The list "added_tokens" of a tokenizer.json.
std::vector<AddedToken> added_tokens_of(const TokenizerJson& tokenizer);

/// The added tokens of a tokenizer. Those that are missing in `pieces` are put there.
/// Throws: InvalidArgument where a token has the id of another
std::vector<AddedToken> added_tokens_of(const TokenizerJson& tokenizer, std::vector<std::string>& pieces,
                                        const std::string& name);

/// A token in the form of the list "added_tokens".
TokenizerJson json_of(const AddedToken& token);

/// The ids that a tokenizer puts before and after each text.
struct Surroundings {
  std::vector<int64_t> before, behind;
};

/// Throws: InvalidArgument where the post-processor is unknown, or an id is not below `size`
Surroundings surroundings_of(const TokenizerJson& tokenizer, int64_t size, const std::string& name);

}  // namespace adjoin::data
