#include "runtime/weights/progress.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/handle.hpp"
#include "runtime/base/units.hpp"
#include "transport/launcher.hpp"

namespace farpage::weights {
namespace {
void write_text(const std::string& text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

// Under a launcher stderr is a pipe that the launcher copies to its own: what counts is whether that one is a terminal.
// (Launched from another host the parent is a daemon without one: no line.)
bool someone_watches() {
  if (::isatty(STDERR_FILENO) == 1) return true;
  const Fd launcher(
      ::open(fmt::format("/proc/{}/fd/2", ::getppid()).c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  struct stat own;
  const bool piped = ::fstat(STDERR_FILENO, &own) == 0 && S_ISFIFO(own.st_mode);
  return piped && launcher && transport::launched_by_mpirun() && ::isatty(launcher.get()) == 1;
}
}  // namespace

Progress::Progress(bool first_rank, uint64_t share_bytes, uint64_t total_bytes)
    : shown_(first_rank && share_bytes > 0 && someone_watches()), share_bytes_(share_bytes), total_bytes_(total_bytes) {
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
