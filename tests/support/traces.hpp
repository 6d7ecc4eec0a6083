#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace adjoin::test {

/// The JSON in the file of a trace.
inline nlohmann::json read_trace(const std::filesystem::path& path) {
  gzFile const file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path.string());
  std::string text;
  std::array<char, 1 << 14> piece;
  int read = 0;
  while ((read = gzread(file, piece.data(), piece.size())) > 0) text.append(piece.data(), static_cast<size_t>(read));
  const bool is_whole = read == 0 && gzdirect(file) == 0 && gzclose(file) == Z_OK;
  if (!is_whole) throw std::runtime_error(path.string() + " is no whole gzip file");
  return nlohmann::json::parse(text);
}

/// Begin and end of a complete event, in nanoseconds.
inline std::pair<int64_t, int64_t> times_of(const nlohmann::json& event) {
  const int64_t begin = std::llround(1000 * event.at("ts").get<double>());
  return {begin, begin + std::llround(1000 * event.at("dur").get<double>())};
}

/// Where an event stands: process and thread.
inline std::pair<int, int> track_of(const nlohmann::json& event) {
  return {event.at("pid").get<int>(), event.at("tid").get<int>()};
}

/// The events of a trace that are of this phase, and have this name unless it is "".
inline std::vector<nlohmann::json> events_of(const nlohmann::json& trace, const std::string& phase,
                                             const std::string& name = "") {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& event : trace.at("traceEvents"))
    if (event.at("ph") == phase && (name.empty() || event.at("name") == name)) found.push_back(event);
  return found;
}

/// Expects of a trace of so many ranks: each is a process with a name and has events; on a thread each complete event lies within
/// or outside of each other one, in an order in which who encloses comes first; the parts of a call fill it; each arrow leads from a
/// slice of one rank to one of another (or the same), and no message ends before it begins.
inline void expect_sound_trace(const nlohmann::json& trace, int ranks) {
  std::set<int> named, active;
  for (const nlohmann::json& event : events_of(trace, "M", "process_name")) named.insert(event.at("pid").get<int>());
  EXPECT_EQ(std::ssize(named), ranks);

  std::map<std::pair<int, int>, std::vector<std::pair<int64_t, int64_t>>> tracks;
  std::map<std::pair<int, int>, std::vector<nlohmann::json>> open;
  for (const nlohmann::json& event : events_of(trace, "X")) {
    const auto [begin, end] = times_of(event);
    EXPECT_LE(0, begin);
    EXPECT_LE(begin, end) << event;
    std::vector<nlohmann::json>& around = open[track_of(event)];
    while (!around.empty() && times_of(around.back()).second <= begin) around.pop_back();
    if (!around.empty()) {
      EXPECT_LE(times_of(around.back()).first, begin) << event << "\nwithin " << around.back();
      EXPECT_LE(end, times_of(around.back()).second) << event << "\nwithin " << around.back();
    }
    const bool is_part = event.at("name") == "waiting" || event.at("name") == "moving";
    EXPECT_EQ(is_part, !around.empty() && around.back().at("cat") == "communication") << event;
    around.push_back(event);
    tracks[track_of(event)].emplace_back(begin, end);
  }
  std::map<int, int> process_of;  // of each thread, whose numbers are of the whole file
  for (const auto& [track, slices] : tracks) {
    EXPECT_TRUE(process_of.emplace(track.second, track.first).second) << "thread " << track.second << " of two ranks";
    active.insert(track.first);
  }
  EXPECT_EQ(active, named);

  std::map<int, nlohmann::json> begins;
  for (const nlohmann::json& event : events_of(trace, "s"))
    EXPECT_TRUE(begins.emplace(event.at("id").get<int>(), event).second) << event;
  const auto time_of = [&](const nlohmann::json& event) {
    const int64_t at = std::llround(1000 * event.at("ts").get<double>());
    const auto& slices = tracks[track_of(event)];
    EXPECT_TRUE(std::ranges::any_of(slices, [&](const auto& s) { return s.first <= at && at <= s.second; })) << event;
    return at;
  };
  for (const nlohmann::json& event : events_of(trace, "f")) {
    EXPECT_EQ(event.at("bp"), "e");
    const auto begin = begins.find(event.at("id").get<int>());
    ASSERT_NE(begin, begins.end()) << event;
    EXPECT_LE(time_of(begin->second), time_of(event)) << event;
    begins.erase(begin);
  }
  EXPECT_TRUE(begins.empty());
}

}  // namespace adjoin::test
