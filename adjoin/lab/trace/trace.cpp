#include "adjoin/lab/trace/trace.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/observers.hpp"
#include "adjoin/lab/trace/trace_file.hpp"

namespace adjoin::lab {
namespace {

void write_file(const std::string& path, std::string_view bytes) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  const auto fail = [&] { throw IoError(path + ": " + std::strerror(errno)); };
  if (!file) fail();
  const bool is_written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (std::fclose(file) != 0 || !is_written) fail();
}

}  // namespace

Trace::Trace(const Communicator& world, std::string name)
    : timeline_(std::make_shared<Timeline>()), world_(also_observed_by(world, timeline_)) {
  if (name.empty()) name = ranks_text(world.world_ranks().subspan(static_cast<size_t>(world.rank()), 1));
  recorder_ = std::make_unique<RankRecorder>(world, std::move(name));
}

Trace::~Trace() = default;

void Trace::write(const std::string& path) {
  recorder_->add(timeline_->take());
  std::vector<TracedRank> ranks = recorder_->gathered();
  if (world_.rank() == 0) write_file(path, trace_file(std::move(ranks)));
}

}  // namespace adjoin::lab
