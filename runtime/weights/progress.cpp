#include "runtime/weights/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/base/units.hpp"

namespace farpage::weights {
namespace {
void write_text(const std::string& text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }
}  // namespace

Progress::Progress(bool first_rank, uint64_t share_bytes, uint64_t total_bytes)
    : shown_(first_rank && share_bytes > 0 && ::isatty(STDERR_FILENO) == 1),
      share_bytes_(share_bytes),
      total_bytes_(total_bytes) {
  draw();
}

// Also after an error: what is printed next begins on its own line.
Progress::~Progress() {
  if (shown_) write_text("\n");
}

void Progress::add(uint64_t bytes) {
  done_bytes_ += bytes;
  const uint64_t percent = share_bytes_ == 0 ? 100 : done_bytes_ * 100 / share_bytes_;
  if (percent == drawn_percent_) return;
  drawn_percent_ = percent;
  draw();
}

void Progress::draw() const {
  if (shown_)
    write_text(fmt::format("\rweights: {} % of {:.1f} MiB", drawn_percent_,
                           static_cast<double>(total_bytes_) / static_cast<double>(1_MiB)));
}

}  // namespace farpage::weights
