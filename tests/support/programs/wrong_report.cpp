#include <algorithm>
#include <iterator>
#include <string_view>

#include "tests/support/programs/run.hpp"
#include "tests/support/programs/wrong.hpp"

namespace adjoin::testing::programs {

std::string difference(const WrongProgram& program, const std::string& error, const std::string& message) {
  if (error != program.error) return "expected " + program.error + ", got " + error + ": " + message;
  std::vector<std::string> says = program.says;
  if (program.error == kTold && program.change != Change::exception) {
    constexpr std::string_view openings[] = {"deadlock: these calls can never end", "mismatched collectives",
                                             "the message of rank ", "expected a message of "};
    const bool is_diagnosis = std::any_of(std::begin(openings), std::end(openings), [&](std::string_view opening) {
      return message.find(opening) != std::string::npos;
    });
    if (!is_diagnosis) return "expected a deadlock, mismatched collectives or messages, got: " + message;
    says.emplace_back(kMadeAt);
  }
  for (const std::string& part : says)
    if (message.find(part) == std::string::npos) return "expected \"" + part + "\" in: " + message;
  return "";
}

std::string describe(const WrongProgram& program) {
  std::string text = "rank " + std::to_string(program.culprit) + " makes " + program.what + " of " +
                     describe(program.meant) + "rank " + std::to_string(program.culprit) + " alone:\n";
  for (const Step& step : program.changed.steps)
    if (program.changed.takes(program.culprit, step)) text += "  step " + describe(step) + "\n";
  return text;
}

}  // namespace adjoin::testing::programs
