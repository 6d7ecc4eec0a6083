#pragma once

#include <array>
#include <string_view>

/// The words of the sample corpus's grammar. {0} stands for a clause's subject, {1} for its opinion.
namespace adjoin::data::sample {

using Text = std::string_view;

inline constexpr auto kPraise = std::to_array<Text>(
    {"brilliant", "moving",   "clever",   "charming",  "gripping",  "fresh",      "honest",    "warm",
     "elegant",   "superb",   "lovely",   "witty",     "thrilling", "delightful", "memorable", "convincing",
     "rich",      "graceful", "inspired", "wonderful", "tender",    "bold",       "splendid",  "beautiful"});

inline constexpr auto kBlame = std::to_array<Text>(
    {"dreadful", "dull",   "weak",        "clumsy",   "boring",  "tedious",   "lifeless", "stale",
     "awful",    "flat",   "lazy",        "shallow",  "messy",   "silly",     "bland",    "hollow",
     "tiresome", "feeble", "forgettable", "careless", "painful", "pointless", "sloppy",   "dreary"});

/// Words that turn the praise or blame after them in the same clause into its opposite.
inline constexpr auto kNegations =
    std::to_array<Text>({"not", "never", "hardly", "not at all", "far from", "by no means", "not really", "not very"});

inline constexpr auto kStress = std::to_array<Text>({"", "", "very", "truly", "quite", "rather", "simply"});

inline constexpr auto kAspects =
    std::to_array<Text>({"plot",        "acting",  "music",   "script",     "camera work", "dialogue", "pacing",
                         "cast",        "story",   "humour",  "editing",    "lighting",    "opening",  "final act",
                         "leading man", "heroine", "villain", "love story", "sound",       "direction"});

inline constexpr auto kAspectOpinions = std::to_array<Text>(
    {"the {0} is {1}", "the {0} was {1}", "the {0} seems {1}", "the {0} feels {1}", "i found the {0} {1}"});

/// Beginnings of a clause that decides the review, whatever else it says.
inline constexpr auto kVerdictMarkers =
    std::to_array<Text>({"overall", "in the end", "all in all", "on the whole", "when all is said"});

inline constexpr auto kVerdicts = std::to_array<Text>(
    {"it is {1}", "the film is {1}", "i found it {1}", "i would call it {1}", "the evening was {1}"});

inline constexpr auto kRemarks = std::to_array<Text>(
    {"we saw it on a rainy sunday", "my brother chose this one for us", "it is set in a small town by the sea",
     "the film runs for two hours", "a friend gave me the disc years ago", "it tells of a sailor and his daughter",
     "most of it takes place on a train", "the cinema was half empty that night", "they shot it in black and white",
     "it was the first film of its director", "a young doctor comes home after the war", "i had read the novel before",
     "two thieves plan one last job", "nobody in our row said a word", "the house next door hides a secret",
     "i watched it again last winter"});

}  // namespace adjoin::data::sample
