#pragma once

#include <string>

#include "adjoin/task/configuration.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::testing {

/// Texts of uneven lengths in two classes, a vocabulary, and paragraphs.
inline void write_texts(const std::string& folder) {
  std::string texts = "text,label\n", paragraphs;
  for (int i = 0; i < 40; ++i) {
    std::string words = i % 2 == 0 ? "good" : "bad";
    for (int word = 0; word < i % 7; ++word) words += word % 3 == 0 ? " film" : " plot";
    texts += words + "," + std::to_string(i % 2) + "\n";
    paragraphs += words + "\n\n";
  }
  test::put(folder + "/texts.csv", texts);
  test::put(folder + "/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nfilm\nplot\n");
  test::put(folder + "/paragraphs.txt", paragraphs);
}

inline train::Configuration of_texts(const std::string& programs, const std::string& folder, bool is_decoder) {
  train::Configuration c;
  c.program = programs + (is_decoder ? "/writer.pt2" : "/texts.pt2");
  c.data = folder + (is_decoder ? "/paragraphs.txt" : "/texts.csv");
  c.vocab = is_decoder ? "bytes" : folder + "/vocab.txt";
  c.model = is_decoder ? train::ModelKind::decoder : train::ModelKind::classifier;
  c.task = train::kProgramTask;
  c.precision = train::Precision::fp64;
  c.sequence = 16;
  c.batch = 6;
  return c;
}

}  // namespace adjoin::testing
