#include "adjoin/store/fail_alike.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/common_cause.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {
namespace {

/// In the order of their priority.
enum class Failure : int64_t { none, error, io, invalid, damage };

[[noreturn]] void fail_with(Failure failure, const std::string& message) {
  switch (failure) {
    case Failure::damage:
      throw DamagedFile(message);
    case Failure::invalid:
      throw InvalidArgument(message);
    case Failure::io:
      throw Common<IoError>(message);
    default:
      throw Common<Error>(message);
  }
}

}  // namespace

void fail_alike(const Communicator& world, const std::function<void()>& work) {
  auto mine = Failure::none;
  std::string message;
  const auto note = [&](Failure failure, const Error& error) { mine = failure, message = error.what(); };
  try {
    work();
  } catch (const DamagedFile& error) {
    note(Failure::damage, error);
  } catch (const InvalidArgument& error) {
    note(Failure::invalid, error);
  } catch (const IoError& error) {
    note(Failure::io, error);
  } catch (const Error& error) {
    note(Failure::error, error);
  }
  const std::vector<int64_t> all = numbers_of_all(static_cast<int64_t>(mine), world);
  const auto worst = std::max_element(all.begin(), all.end());
  if (*worst == 0) return;
  fail_with(static_cast<Failure>(*worst), text_from_rank(static_cast<int>(worst - all.begin()), message, world));
}

}  // namespace adjoin::train
