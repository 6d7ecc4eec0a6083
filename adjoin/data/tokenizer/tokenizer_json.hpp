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

/// At most 200 bytes of a text that may come from a file, on one line.
std::string excerpt(std::string_view text);
/// The same between quotes: "Precompiled".
std::string in_quotes(std::string_view text);

/// Calls `read` and says of what nlohmann::json finds wrong that the file `name` is wrong, in one line.
/// Throws: InvalidArgument that begins with `name`
template <class Read>
auto reading_json(const std::string& name, Read&& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(name + ": " + excerpt(error.what()));
  }
}

/// The value of a JSON text whose brackets are not nested deeper than any tokenizer's.
/// Throws: InvalidArgument that begins with `name` where it is none
TokenizerJson parse_json(std::string_view text, const std::string& name);

/// Of an object; null where it has no such key.
const TokenizerJson& field(const TokenizerJson& object, const char* key);

/// Whether a field is there, not null and not false. Throws: InvalidArgument where it is there and no boolean
bool flag(const TokenizerJson& object, const char* key, bool otherwise = false);

/// A field of text; "" where it is missing or null.
std::string text_field(const TokenizerJson& object, const char* key);

/// The field "type" of a part of a tokenizer; "" of null.
std::string type_of(const TokenizerJson& part);

/// Refuses a part of a tokenizer by its name: normalizer "Precompiled".
[[noreturn]] void refuse_part(const std::string& name, const char* part, const std::string& type);

/// Calls `visit` with the parts that a part consists of, in their order: the members of a Sequence, or itself. None of null.
/// `members`: the field of a Sequence that has them.
template <class Visit>
void for_each_part(const TokenizerJson& part, const char* members, Visit&& visit) {
  if (part.is_null()) return;
  if (type_of(part) != "Sequence") return visit(part);
  for (const TokenizerJson& member : part.at(members)) for_each_part(member, members, visit);
}

/// The pieces of a model's vocabulary by their id, "" where an id has none.
/// Throws: InvalidArgument where two have one id, or an id is far beyond their number
std::vector<std::string> pieces_of(const TokenizerJson& vocabulary, const std::string& name);

/// The added tokens of a tokenizer, which are put into `pieces` where they are not yet.
/// Throws: InvalidArgument where a token's id is another's
std::vector<AddedToken> added_tokens_of(const TokenizerJson& tokenizer, std::vector<std::string>& pieces,
                                        const std::string& name);

/// A token as the list "added_tokens" has it.
TokenizerJson json_of(const AddedToken& token);

/// The ids that a tokenizer puts before and behind each text.
struct Surroundings {
  std::vector<int64_t> before, behind;
};

/// Throws: InvalidArgument where the post-processor is unknown or an id is none of `size` ones
Surroundings surroundings_of(const TokenizerJson& tokenizer, int64_t size, const std::string& name);

}  // namespace adjoin::data
