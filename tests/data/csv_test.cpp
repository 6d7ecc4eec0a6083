#include "adjoin/data/text_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

using Records = std::vector<std::vector<std::string>>;
using ::testing::HasSubstr;

Records read_all(const std::string& path) {
  CsvReader csv(path);
  Records records;
  for (std::vector<std::string> fields; csv.next(fields);) records.push_back(fields);
  return records;
}

Records parse(const std::string& content) {
  const TemporaryFolder folder;
  return read_all(folder.write("a.csv", content));
}

std::string refusal_of(const std::string& content) {
  return refusal([&] { parse(content); });
}

std::string long_content() {  // many times the reader's buffer, CRLF at every place of it
  std::string content = "text,label\r\n";
  for (int i = 0; i < 60000; ++i)
    content += "\"line " + std::string(i % 7, 'x') + ", \"\"quoted\"\"\r\nnext\",1\r\nplain,0\r\n";
  return content;
}

TEST(CsvReader, finds_semicolons_where_the_first_line_has_no_comma_outside_quotes) {
  const TemporaryFolder folder;
  const auto separator_of = [&](const std::string& content) {
    return separator_of_csv(folder.write("a.csv", content));
  };
  EXPECT_EQ(separator_of("text;label\na,b;1\n"), Separator::semicolon);
  EXPECT_EQ(separator_of("\n\"text, or\n\"\"so\"\"\";label\n"), Separator::semicolon);
  EXPECT_EQ(separator_of("text;more,label\n"), Separator::comma);
  EXPECT_EQ(separator_of("\"a;b\"\nc;d\n"), Separator::comma);
  EXPECT_EQ(separator_of(""), Separator::comma);
  CsvReader csv(folder.write("a.csv", "\"text\";label\n\"a;\nb\";0,5\n"), Separator::semicolon);
  std::vector<std::string> fields;
  EXPECT_TRUE(csv.next(fields) && csv.next(fields));
  EXPECT_EQ(fields, (std::vector<std::string>{"a;\nb", "0,5"}));
  EXPECT_THAT(refusal([&] {
                CsvReader broken(folder.write("a.csv", "\"a\"b;c\n"), Separator::semicolon);
                broken.next(fields);
              }),
              HasSubstr("instead of a semicolon"));
}

TEST(CsvReader, reads_quoted_commas_quotes_and_newlines) {
  EXPECT_EQ(parse("text,label\n\"a, \"\"b\"\"\nc\",1\nplain,0\n"),
            (Records{{"text", "label"}, {"a, \"b\"\nc", "1"}, {"plain", "0"}}));
}

TEST(CsvReader, reads_crlf_byte_order_mark_empty_fields_and_a_last_line_without_end) {
  EXPECT_EQ(parse("\xef\xbb\xbf"
                  "a,b\r\n\r\n,\"\"\r\n\"x\r\ny\",z\rz"),
            (Records{{"a", "b"}, {"", ""}, {"x\r\ny", "z\rz"}}));
}

TEST(CsvReader, has_no_records_in_an_empty_file) {
  EXPECT_TRUE(parse("").empty());
}

TEST(CsvReader, reads_the_same_from_a_gzipped_file_of_many_buffers) {
  const TemporaryFolder folder;
  const std::string content = long_content();
  const Records plain = read_all(folder.write("a.csv", content));
  ASSERT_EQ(plain.size(), 120001u);
  EXPECT_EQ(plain[119999][0], "line " + std::string(59999 % 7, 'x') + ", \"quoted\"\r\nnext");
  for (const auto& record : plain) ASSERT_FALSE(record[1].ends_with('\r'));
  EXPECT_EQ(read_all(folder.write_gzipped("a.csv.gz", content)), plain);
}

TEST(CsvReader, knows_the_line_on_which_a_record_began) {
  const TemporaryFolder folder;
  CsvReader csv(folder.write("a.csv", "a,b\n\n\"1\n2\n3\",x\ny,z\n"));
  std::vector<int64_t> lines;
  for (std::vector<std::string> fields; csv.next(fields);) lines.push_back(csv.line());
  EXPECT_EQ(lines, (std::vector<int64_t>{1, 3, 6}));
}

TEST(CsvReader, names_the_line_where_a_quote_opened_that_never_closes) {
  EXPECT_THAT(refusal_of("a,b\n\"1\n2\",x\ny,\"z\n1,2\n"), HasSubstr("a.csv:4: a quote opens here and never closes"));
}

TEST(CsvReader, names_the_line_where_a_quote_opened_that_closes_inside_its_field) {
  EXPECT_THAT(refusal_of("a,b\n\"say\n\"hi\"\",x\n"), HasSubstr("a.csv:2: a quote opens here and closes before 'h'"));
}

TEST(CsvReader, refuses_a_quote_inside_a_plain_field) {
  EXPECT_THAT(refusal_of("a,b\nx,y\nsay \"hi\",x\n"), HasSubstr("a.csv:3: a quote stands inside a field"));
}

TEST(CsvReader, refuses_a_record_with_too_few_or_too_many_fields) {
  EXPECT_THAT(refusal_of("a,b\nx\n"), HasSubstr("a.csv:2: expected 2 fields as in the first line, found 1"));
  EXPECT_THAT(refusal_of("a,b\nx,y\nx,y,z\n"), HasSubstr("a.csv:3: expected 2 fields as in the first line, found 3"));
}

TEST(CsvReader, refuses_a_missing_file_and_a_folder) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal([&] { read_all(folder.path("b.csv")); }), HasSubstr("b.csv: cannot open: No such file"));
  EXPECT_THAT(refusal([&] { read_all(folder.path()); }), HasSubstr("is a folder"));
}

TEST(CsvReader, refuses_a_truncated_damaged_or_pretended_gzip_file) {
  const TemporaryFolder folder;
  const std::string whole_path = folder.write_gzipped("whole.csv.gz", long_content());
  std::ifstream file(whole_path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const std::string half = folder.write("half.csv.gz", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(refusal([&] { read_all(half); }), HasSubstr("the gzip stream ends early: the file is truncated"));
  std::string flipped = whole;
  flipped[whole.size() - 8] ^= 1;  // the checksum (RFC 1952)
  const std::string damaged = folder.write("damaged.csv.gz", flipped);
  EXPECT_THAT(refusal([&] { read_all(damaged); }), HasSubstr("the gzip stream is damaged: incorrect data check"));
  const std::string plain = folder.write("plain.csv.gz", "a,b\n");
  EXPECT_THAT(refusal([&] { read_all(plain); }), HasSubstr("is not a gzip file"));
}

TEST(CsvReader, blames_the_gzip_stream_where_damage_makes_wrong_records) {
  const TemporaryFolder folder;
  const std::string path = folder.write_gzipped("a.csv.gz", "a,b\nonly one field\n");
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(refusal([&] { read_all(path); }), HasSubstr("a.csv.gz:2: expected 2 fields"));
  bytes[bytes.size() - 8] ^= 1;
  folder.write("a.csv.gz", bytes);
  EXPECT_THAT(refusal([&] { read_all(path); }), HasSubstr("the gzip stream is damaged"));
}

}  // namespace
}  // namespace adjoin::data
