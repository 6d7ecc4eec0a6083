#include "adjoin/report/page.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "run_folders.hpp"

namespace adjoin::report {
namespace {

using test::make_run;
using test::TemporaryFolder;
using testing::HasSubstr;
using testing::Not;

std::string page_of_folder(const std::filesystem::path& folder) {
  return page_of({read_run(folder.string())}, {});
}

TEST(ReportPage, refers_to_nothing_outside) {
  const TemporaryFolder folder;
  make_run(folder / "a", 30);
  test::put_summary(folder / "a", test::summary_of(test::tiny_with_ranks(2, 2, 1)));
  const std::string page = page_of_folder(folder / "a");
  for (const char* reference : {"http:", "https:", "src=", "href=", "url(", "@import", "<link", "<base"})
    EXPECT_THAT(page, Not(HasSubstr(reference)));
}

TEST(ReportPage, shows_markup_in_names_paths_and_options_as_text) {
  const TemporaryFolder folder;
  const std::string strange = "</script><img src=x onerror=alert(1)>&\"'";
  train::Configuration configuration = test::tiny_with_ranks(1, 1, 1);
  configuration.label_column = strange;
  nlohmann::ordered_json summary = test::summary_of(configuration);
  summary["host"] = strange;
  make_run(folder / "<i>&" / "a", 30);
  test::put_summary(folder / "<i>&" / "a", summary);
  const std::string page = page_of_folder(folder / "<i>&" / "a");
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<i>")));
  EXPECT_THAT(page, HasSubstr("&lt;i&gt;&amp;"));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&amp;&quot;"));
  size_t scripts = 0;
  for (size_t at = page.find("</script>"); at != page.npos; at = page.find("</script>", at + 1)) ++scripts;
  EXPECT_EQ(scripts, 2u);  // those of the page
}

TEST(ReportPage, says_what_is_unfinished_and_what_was_left_out) {
  const TemporaryFolder folder;
  make_run(folder / "a", 5);
  test::put(folder / "a" / "metrics.jsonl", test::contents_of(folder / "a" / "metrics.jsonl") + "damaged\n");
  const std::string page = page_of_folder(folder / "a");
  EXPECT_THAT(page, HasSubstr("not finished: step 5"));
  EXPECT_THAT(page, HasSubstr("1 damaged line of metrics.jsonl left out; its configuration is not known"));
}

TEST(ReportPage, keeps_apart_runs_without_a_common_measure) {
  const TemporaryFolder folder;
  make_run(folder / "a", 5, "accuracy");
  make_run(folder / "b", 5, "bits_per_byte");
  make_run(folder / "c", 5, "accuracy");
  const auto runs = read_runs({(folder / "a").string(), (folder / "b").string(), (folder / "c").string()});
  const std::string page = page_of(runs, {});
  EXPECT_THAT(page, HasSubstr("<h3>" + runs[0].name + ", " + runs[2].name + "</h3>"));
  EXPECT_THAT(page, HasSubstr("<h3>" + runs[1].name + "</h3>"));
  size_t losses = 0;
  for (size_t at = 0; (at = page.find(">training loss<", at)) != page.npos; ++at) ++losses;
  EXPECT_EQ(losses, 2u);
}

TEST(ReportPage, marks_the_options_in_which_runs_differ) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    make_run(folder / name, 5);
    train::Configuration configuration = test::tiny_with_ranks(1, 1, 1);
    configuration.seed = *name == 'a' ? 1 : 2;
    test::put_summary(folder / name, test::summary_of(configuration));
  }
  const std::string page = page_of(read_runs({(folder / "a").string(), (folder / "b").string()}), {});
  EXPECT_THAT(page, HasSubstr("<tr class=\"differs\"><th scope=\"row\"><span title=\"differs\">≠</span> --seed</th>"
                              "<td>1</td><td>2</td></tr>"));
  EXPECT_EQ(page.find("class=\"differs\"", page.find("class=\"differs\"") + 1), page.npos) << "one option differs";
}

TEST(ReportPage, draws_times_memory_beside_its_plan_layout_and_pipeline) {
  const TemporaryFolder folder;
  make_run(folder / "a", 5);
  nlohmann::ordered_json summary = test::summary_of(test::tiny_with_ranks(2, 2, 1));
  for (auto& rank : summary["ranks"])
    rank.update({{"computing_seconds", 6.0},
                 {"waiting_seconds", 2.0},
                 {"communicating_seconds", 1.5},
                 {"data_seconds", 0.5},
                 {"hidden_seconds", 0.25}});
  summary["pipeline_step"] = {
      {"step", 3},
      {"ranks",
       {{{"rank", 0},
         {"actions",
          {{{"action", "F"}, {"stage", 0}, {"microbatch", 0}, {"begin", 0.0}, {"end", 0.5}},
           {{"action", "B"}, {"stage", 0}, {"microbatch", 0}, {"begin", 1.5}, {"end", 2.25}}}}}}}};
  test::put_summary(folder / "a", summary);
  const std::vector runs{read_run((folder / "a").string())};
  const std::string page = page_of(runs, {{.ranks = {{.rank = 0, .highest = 4 << 20}}}});
  EXPECT_THAT(page, HasSubstr("rank 0: computing 6 s, 60.0 %"));
  EXPECT_THAT(page, HasSubstr("rank 3: communicating 1.5 s, 15.0 %; 250 ms more hidden behind computing"));
  EXPECT_THAT(page, HasSubstr("rank 0: planned 4.0 MiB of a step"));
  EXPECT_THAT(page, HasSubstr("3.0 MiB (-25 %)"));
  EXPECT_THAT(page, HasSubstr("rank 3: replica 1 ep 0 pp 1 cp 0 tp 0; stage 3"));
  EXPECT_THAT(page, HasSubstr("0B0: backward, stage 0, micro-batch 0, from 1.5 to 2.25 s"));
  EXPECT_THAT(page_of(runs, {{.trouble = "/nowhere: no such data"}}),
              HasSubstr("Without its plan: /nowhere: no such data"));
}

TEST(ReportPage, shows_f1_and_the_confusion_matrix_of_classes) {
  const TemporaryFolder folder;
  make_run(folder / "a", 5);
  nlohmann::ordered_json summary = test::summary_of(test::tiny_with_ranks(1, 1, 1));
  summary["test_classes"] = {"<b>", "F1"};
  summary["test_f1"] = {0.25, 0.75};
  summary["test_macro_f1"] = 0.5;
  summary["test_confusion"] = {{1, 2}, {3, 4}};
  test::put_summary(folder / "a", summary);
  const std::string page = page_of_folder(folder / "a");
  EXPECT_THAT(page, HasSubstr("<th scope=\"col\">test macro f1</th>"));
  EXPECT_THAT(page, HasSubstr("<th scope=\"col\">class</th><th scope=\"col\">F1</th><th scope=\"col\">taken for "
                              "&lt;b&gt;</th><th scope=\"col\">taken for F1</th>"));
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">&lt;b&gt;</th><td>0.2500</td><td>1</td><td>2</td>"));
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">F1</th><td>0.7500</td><td>3</td><td>4</td>"));
  summary["test_confusion"] = {{1}, "?"};  // damaged
  summary["test_f1"] = "?";
  test::put_summary(folder / "a", summary);
  EXPECT_THAT(page_of_folder(folder / "a"), HasSubstr("<th scope=\"row\">&lt;b&gt;</th><td>1</td>"));
}

TEST(ReportPage, leaves_out_what_older_runs_do_not_tell) {
  const TemporaryFolder folder;
  make_run(folder / "a", 5);
  test::put(folder / "a" / "summary.json", R"({"ranks": "?", "config": {"dp": "x"}, "pipeline_step": {"ranks": [1]}})");
  const std::string page = page_of_folder(folder / "a");
  for (const char* section : {"Time of each rank", "Memory of each rank", "Layout", "Pipeline", "Configuration"})
    EXPECT_THAT(page, Not(HasSubstr("<h2>" + std::string(section) + "</h2>")));
  EXPECT_THAT(page, HasSubstr("<h2>Curves</h2>"));
}

/// Runs as they would be read, of all numbers that training writes.
std::vector<Run> long_runs(int count, int64_t steps) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise;
  std::vector<Run> runs;
  for (int i = 0; i < count; ++i) {
    Run& run = runs.emplace_back(Run{.name = "runs/number-" + std::to_string(i)});
    run.last_step = steps;
    for (const char* key : {"loss", "accuracy", "learning_rate", "tokens_per_second", "step_seconds", "waiting_seconds",
                            "communicating_seconds", "flops_per_second"}) {
      Series& series = run.of_steps.emplace_back(key, Series{}).second;
      for (int64_t step = 1; step <= steps; ++step) {
        series.steps.push_back(step);
        series.values.push_back(1 + 0.1 * noise(random));
      }
    }
  }
  return runs;
}

TEST(ReportPage, of_eight_runs_of_100000_steps_has_at_most_2_mb_and_all_extremes) {
  auto runs = long_runs(8, 100'000);
  for (size_t run = 0; run < runs.size(); ++run) runs[run].of_steps[0].second.values[12'345 * (run + 1)] = 900 + run;
  const std::string page = page_of(runs, {});
  EXPECT_LE(page.size(), 2'000'000u);
  EXPECT_GE(page.size(), 1'000'000u) << "there is room for more points";
  for (size_t run = 0; run < runs.size(); ++run) EXPECT_THAT(page, HasSubstr("," + std::to_string(900 + run) + ".0,"));
}

}  // namespace
}  // namespace adjoin::report
