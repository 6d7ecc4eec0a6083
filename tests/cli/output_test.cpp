#include "adjoin/cli/output.hpp"

#include <gtest/gtest.h>

namespace adjoin::cli {
namespace {

std::string printed(Report& report) {
  ::testing::internal::CaptureStdout();
  report.print();
  return ::testing::internal::GetCapturedStdout();
}

/// A table with a column for all, one for people and one for programs, and with a text and a value that differ.
Report report_with_table(bool as_json, size_t rows) {
  Report report{as_json};
  report.text << "some ranks\n";
  report.json["ranks"] = 2;
  report.table(report.json["all"], "rrl", rows, [](size_t i) -> Row {
    return {{"rank", i},
            {"size=", i + 10},
            {"=shape", {i, 3}},
            {"is at=place", i == 0 ? Json() : Json("b"), i == 0 ? "-" : "b"}};
  });
  return report;
}

TEST(Report, is_text_for_people) {
  Report report = report_with_table(/*as_json=*/false, 2);
  EXPECT_EQ(printed(report), "some ranks\nrank  size  is at\n   0    10  -\n   1    11  b\n");
  EXPECT_EQ(printed(report), "");
}

TEST(Report, is_one_line_of_json_for_programs) {
  Report report = report_with_table(/*as_json=*/true, 2);
  report.json["note"] = or_null(std::string());
  ::testing::internal::CaptureStdout();
  report.print_text();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(printed(report), R"({"ranks":2,"all":[{"rank":0,"shape":[0,3],"place":null},)"
                             R"({"rank":1,"shape":[1,3],"place":"b"}],"note":null})"
                             "\n");
}

TEST(Report, of_no_rows_has_an_empty_list_and_no_table) {
  Report text = report_with_table(/*as_json=*/false, 0), json = report_with_table(/*as_json=*/true, 0);
  EXPECT_EQ(printed(text), "some ranks\n");
  EXPECT_EQ(printed(json), "{\"ranks\":2,\"all\":[]}\n");
}

TEST(Report, keeps_bytes_that_are_not_utf8_in_text_and_replaces_them_in_json) {
  for (const bool as_json : {false, true}) {
    Report report{as_json};
    report.text << "\xff\x1b\n";
    report.json = "\xff\x1b\x7f";
    EXPECT_EQ(printed(report), as_json ? "\"\uFFFD\\u001b\\u007f\"\n" : "\xff\x1b\n");
  }
}

}  // namespace
}  // namespace adjoin::cli
