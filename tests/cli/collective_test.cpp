#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

using nlohmann::json;
using test::contents_of;
using test::lines_of;
using test::Outcome;
using test::run;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Outcome run_collective(const std::string& arguments) {
  return test::run_well("collective " + arguments);
}

json collective_json(const std::string& arguments) {
  return test::printed_json("collective " + arguments);
}

json counts(int rank, int sent, int received, int bytes) {
  return {{"rank", rank},
          {"sent", sent},
          {"received", received},
          {"bytes_sent", sent * bytes},
          {"bytes_received", received * bytes}};
}

TEST(CollectiveCommand, prints_who_sends_what_to_whom_in_which_step) {
  const Outcome outcome = run_collective("broadcast --algorithm tree --ranks 4 --root 2 --bytes 8");
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("broadcast by tree on 4 ranks, root 2, 8 B of int32\n"),
                    HasSubstr("step 1       2 -> 3             8 bytes\n"
                              "step 2       2 -> 0             8 bytes\n"
                              "step 2       3 -> 1             8 bytes\n"),
                    HasSubstr("\n   2         2         0            16               0\n"),
                    HasSubstr("The result is right.\n"), HasSubstr("rank  1 holds 200 201\n"), HasSubstr("2 steps\n"),
                    HasSubstr("on threads (measured)"), Not(HasSubstr("simulated"))));
}

TEST(CollectiveCommand, counts_messages_and_bytes_of_each_rank_as_json) {
  const json naive = collective_json("broadcast --algorithm naive --ranks 8 --root 1 --bytes 64");
  for (int r = 0; r < 8; ++r) EXPECT_EQ(naive["ranks"][r], counts(r, r == 1 ? 7 : 0, r == 1 ? 0 : 1, 64));
  EXPECT_EQ(naive["ranks"].size(), 8u);
  EXPECT_EQ(naive["steps"], 1);
  EXPECT_GT(naive["seconds"].get<double>(), 0);
  EXPECT_EQ(naive.size(), 3u);
  const json butterfly = collective_json("all_reduce --algorithm butterfly --ranks 8 --bytes 4K");
  for (int r = 0; r < 8; ++r) EXPECT_EQ(butterfly["ranks"][r], counts(r, 3, 3, 4096));
  const json pieces = collective_json("broadcast --algorithm ring --ranks 3 --bytes 4K --chunk 1K");
  EXPECT_EQ(pieces["ranks"][1], counts(1, 4, 4, 1024));
  EXPECT_EQ(pieces["steps"], 5);  // P - 2 + 4 pieces
}

TEST(CollectiveCommand, is_right_for_every_operation_and_what_is_quickest) {
  for (const char* operation : {"barrier", "broadcast", "reduce", "all_reduce", "gather", "scatter", "all_gather",
                                "reduce_scatter", "all_to_all"})
    for (const char* more : {"", " --ranks 1", " --ranks 5 --bytes 10", " --ranks 3 --bytes 0"})
      EXPECT_THAT(run_collective(std::string(operation) + more).out, HasSubstr("The result is right.")) << operation;
}

TEST(CollectiveCommand, works_in_the_best_pieces_and_tells_of_pieces_where_there_are_some) {
  const std::string ring = "broadcast --ranks 8 --bytes 16M --alpha 2e-6 --beta 8e-11";
  EXPECT_THAT(run_collective(ring).out,
              HasSubstr("broadcast by ring on 8 ranks, root 0, 16 MiB of int32 in pieces of "));
  const double by_rule = collective_json(ring)["seconds"].get<double>();
  EXPECT_LT(by_rule, 0.5 * collective_json(ring + " --algorithm tree")["seconds"].get<double>());
  EXPECT_EQ(run_collective("broadcast --algorithm tree --chunk 16").out.find("pieces"), std::string::npos);
}

TEST(CollectiveCommand, gives_simulated_seconds_on_a_network) {
  // A ring of 8 sends 14 blocks of 1 MiB / 8 one after the other.
  const std::string ring = "all_reduce --algorithm ring --ranks 8 --bytes 1M";
  EXPECT_NEAR(collective_json(ring + " --alpha 2e-6 --beta 1e-10")["seconds"].get<double>(), 14 * (2e-6 + 131072e-10),
              1e-12);
  EXPECT_NEAR(collective_json(ring + " --alpha 1")["seconds"].get<double>(), 14, 1e-12);
  EXPECT_THAT(run_collective(ring + " --alpha 2e-6 --beta 1e-10").out,
              HasSubstr("212 us on a network of alpha 2e-06 s a message, beta 1e-10 s a byte (simulated)"));
}

TEST(CollectiveCommand, only_simulates_thousands_of_ranks) {
  const json tree = collective_json("broadcast --algorithm tree --ranks 4096 --root 7 --bytes 64 --alpha 1e-6");
  EXPECT_NEAR(tree["seconds"].get<double>(), 12e-6, 1e-15);
  EXPECT_EQ(tree["ranks"][7], counts(7, 12, 0, 64));
  EXPECT_EQ(tree["ranks"][6], counts(6, 0, 1, 64));
  EXPECT_THAT(run_collective("broadcast --algorithm tree --ranks 4096 --alpha 1e-6").out, HasSubstr("not run"));
}

TEST(CollectiveCommand, draws_a_space_time_diagram) {
  const TemporaryFolder folder;
  const std::string path = (folder / "tree.svg").string();
  run_collective("broadcast --algorithm tree --ranks 4 --svg '" + path + "'");
  EXPECT_THAT(contents_of(path), AllOf(StartsWith("<svg "), HasSubstr(">rank 3</text>"), HasSubstr(">step</text>"),
                                       HasSubstr("<title>step 2: 1 -&gt; 3, 1024 bytes</title>")));
  run_collective("broadcast --algorithm tree --ranks 4 --alpha 1e-6 --svg '" + path + "'");
  EXPECT_THAT(contents_of(path), AllOf(HasSubstr(">time</text>"), HasSubstr(">2 us</text>")));
}

TEST(CollectiveCommand, compares_algorithms_by_size_and_ranks) {
  const Outcome table = run_collective("all_reduce --compare --ranks 4..4096");
  EXPECT_EQ(lines_of(table.out).size(), 2u + 2 * 12 + 1);  // of words; twice some sizes and eleven numbers of ranks
  for (const std::string& line : lines_of(table.out)) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(table.out, AllOf(HasSubstr("alpha 2e-06 s a message, beta 8e-11 s a byte"), HasSubstr("\n  4096")));
  const json results = collective_json("all_reduce --compare --ranks 8,6 --bytes 8,64M --alpha 1e-6 --beta 1e-9");
  EXPECT_EQ(results["alpha"], 1e-6);
  ASSERT_EQ(results["results"].size(), 4u);
  const json& shortest = results["results"][0];
  EXPECT_EQ(shortest["ranks"], 8);
  EXPECT_EQ(shortest["bytes"], 8);
  EXPECT_EQ(shortest["algorithm"], "butterfly");
  EXPECT_NEAR(shortest["seconds"].get<double>(), 3 * 1.008e-6, 1e-15);
  EXPECT_EQ(shortest["all"].size(), 4u);
  // On six ranks Rabenseifner hands two ranks' values over first; the ring needs 10 / 6 of the bytes and nothing else.
  EXPECT_EQ(results["results"][3]["algorithm"], "ring");
}

TEST(CollectiveCommand, answers_bad_arguments_with_one_line_and_2) {
  const struct {
    std::string arguments, expected;
  } cases[] = {
      {"", "an operation is needed: barrier, broadcast"},
      {"shuffle", "unknown operation \"shuffle\": barrier, broadcast, reduce"},
      {"broadcast --algorithm butterfly", "unknown algorithm \"butterfly\" for broadcast: naive, tree, ring, auto"},
      {"broadcast --root 4", "--root is 4, expected 0 to 3"},
      {"broadcast --root -1", "--root is -1"},
      {"broadcast --ranks 0", "--ranks is 0"},
      {"broadcast --ranks -2", "--ranks is -2"},
      {"broadcast --ranks 2000", "--ranks is 2000, expected 1 to 1024"},
      {"broadcast --ranks 2..4", "--ranks is 2..4"},
      {"broadcast --bytes -5", "--bytes is -5"},
      {"broadcast --bytes 4Q", "--bytes is 4Q"},
      {"broadcast --bytes 100G", "--bytes is 107374182400, expected at most"},
      {"broadcast --algorithm ring --chunk -1", "--chunk is -1"},
      {"broadcast --algorithm ring --ranks 2 --bytes 2M --chunk 1",
       "--chunk makes 2097152 pieces, expected at most 131072"},
      {"broadcast --compare --ranks 4..", "--ranks is 4.., expected a range as in 1..65536"},
      {"broadcast --beta -1e-9", "--beta is -1e-09, expected 0 to 1000000"},
      {"broadcast --alpha -1", "--alpha is -1"},
      {"broadcast --beta nan", "--beta is nan"},
      {"broadcast --ranks 200 --svg x.svg", "--svg draws up to 128 ranks"},
      {"broadcast --svg /none/x.svg", "/none/x.svg"},
      {"all_reduce --compare --ranks 8..4", "--ranks is 8..4"},
      {"all_reduce --compare --algorithm ring", "leave --algorithm out"},
      {"broadcast tree", "tree"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome outcome = run("collective " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("adjoin: "), HasSubstr(expected))) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace adjoin::cli
