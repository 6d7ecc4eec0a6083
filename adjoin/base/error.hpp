#pragma once

#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace adjoin {

/// The base of everything that adjoin throws on purpose.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The caller's mistake, found before anything is sent or written.
class InvalidArgument : public Error {
  using Error::Error;
};

/// A failure of a peer or the network, or a deadline that has passed.
class CommunicationError : public Error {
  using Error::Error;
};

/// A disk or file that fails although the request was valid: full, read-only, too large. Says which file and why.
class IoError : public Error {
  using Error::Error;
};

/// Our own mistake; please report it.
class InternalError : public Error {
  using Error::Error;
};

/// The message of a caught exception.
inline std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return "there is not enough memory";
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

/// Throws the exception's message, preceded by `lead`, as the same class of Error.
[[noreturn]] inline void rethrow_led_by(const std::string& lead, const std::exception_ptr& error) {
  const std::string text = lead + message_of(error);
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument&) {
    throw InvalidArgument(text);
  } catch (const CommunicationError&) {
    throw CommunicationError(text);
  } catch (const IoError&) {
    throw IoError(text);
  } catch (const InternalError&) {
    throw InternalError(text);
  } catch (...) {
    throw Error(text);
  }
}

/// The exit code of a program that this exception ends: 2 for InvalidArgument and IoError, else 1.
inline int exit_code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument&) {
    return 2;
  } catch (const IoError&) {
    return 2;
  } catch (...) {
    return 1;
  }
}

/// Throws InvalidArgument with `message` unless `condition` holds.
inline void require(bool condition, const std::string& message) {
  if (!condition) throw InvalidArgument(message);
}

/// The same for a message that is costly to build: `message` is called only when `condition` fails.
template <class MakeMessage>
  requires std::is_invocable_r_v<std::string, MakeMessage>
void require(bool condition, MakeMessage&& message) {
  if (!condition) throw InvalidArgument(message());
}

/// The same for a message of several parts, texts and numbers, which are joined only then.
template <class... Parts>
  requires(sizeof...(Parts) > 1)
void require(bool condition, const Parts&... parts) {
  if (condition) return;
  std::ostringstream message;
  (message << ... << parts);
  throw InvalidArgument(message.str());
}

}  // namespace adjoin
