#pragma once

namespace adjoin::measure {

/// Times what one thread does.
class Stopwatch {
 public:
  struct Lap {
    double seconds = 0;    ///< by the clock
    double processor = 0;  ///< in which the thread had a processor
    Lap& operator+=(const Lap& other);
    /// The share of the time in which something else had the processor, or the thread waited: 0 to 1.
    double lost() const;
  };

  Stopwatch() { lap(); }
  /// The time since the last lap began, or since the beginning; the next lap begins now.
  Lap lap();

 private:
  Lap begin_;
};

}  // namespace adjoin::measure
