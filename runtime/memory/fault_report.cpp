#include "runtime/memory/fault_report.hpp"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/memory/poison_log.hpp"

namespace farpage::memory {
namespace {

struct Report {
  const Window* window = nullptr;
  const StateSegment* segment = nullptr;
  const RegionTable* regions = nullptr;
  RankId rank;
  RankSlot slot = 0;
};
Report report;
std::atomic<bool> installed{false};
struct sigaction previous_bus, previous_segv;

thread_local sigjmp_buf* guard = nullptr;
thread_local volatile int guard_status = 0;

// Text without heap, locks or stdio: we are in a signal handler.
class Line {
 public:
  Line& text(const char* words) {
    while (*words != 0 && length_ < sizeof buffer_ - 1) buffer_[length_++] = *words++;
    return *this;
  }
  Line& number(uint64_t value, unsigned base = 10) {
    char digits[24];
    int count = 0;
    do digits[count++] = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    while (count > 0 && length_ < sizeof buffer_ - 1) buffer_[length_++] = digits[--count];
    return *this;
  }
  void write() {
    text("\n");
    (void)!::write(STDERR_FILENO, buffer_, length_);
  }

 private:
  char buffer_[512];
  size_t length_ = 0;
};

void print(int signal, uint64_t address, WindowOffset offset, const PoisonReason* reason) {
  Line line;
  line.text("farpage: rank ").number(report.rank.value).text(": access to 0x").number(address, 16).text(": ");
  if (const RegionDescriptor* region = report.regions->find(offset)) {
    line.text("region 0x").number(reinterpret_cast<uint64_t>(report.window->base()) + region->offset, 16);
    line.text(" + ").number(offset - region->offset).text(" of ").number(region->bytes).text(" bytes, block ");
    line.number(region->block_of(offset)).text(", home rank ").number(region->home_of(region->block_of(offset)).value).text(": ");
  }
  if (reason != nullptr)
    line.text(reason->text);
  else if (report.segment->header().lane_ended.load() != 0)
    line.text("the leader of this domain has ended, or dsm_finalize was called");
  else
    line.text(signal == SIGBUS ? "no memory behind the address" : "access refused");
  line.write();
}

void forward(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = signal == SIGBUS ? previous_bus : previous_segv;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN && previous.sa_handler != nullptr) return previous.sa_handler(signal);
  // Back to the default: the access is made again, and ends the process as it would have without us.
  struct sigaction fallback{};
  fallback.sa_handler = SIG_DFL;
  ::sigaction(signal, &fallback, nullptr);
}

// The lane refuses an access to a page that is mapped by signalling the thread, which waits in its fault.
bool refused_by_lane(int signal, const siginfo_t* info, PoisonReason& reason) {
  if (signal != SIGBUS || info->si_code != SI_TKILL || !installed.load(std::memory_order_acquire)) return false;
  if (info->si_pid != report.segment->header().pids[0].load()) return false;
  return find_signalled(*report.segment, report.slot, static_cast<uint32_t>(::gettid()), reason);
}

// Back to the guarded copy. The signals blocked meanwhile are ours to restore: whoever wrapped our handler (ThreadSanitizer does)
// may have blocked all, and the next fault would end the process. Done here, so that a copy that succeeds makes no system call.
[[noreturn]] void leave_copy(Status status, void* context) {
  guard_status = static_cast<int>(status);
  ::pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
  siglongjmp(*guard, 1);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  if (PoisonReason reason{}; refused_by_lane(signal, info, reason)) {
    if (guard != nullptr) leave_copy(reason.status, context);
    print(signal, reinterpret_cast<uint64_t>(report.window->base()) + reason.range.offset, reason.range.offset, &reason);
    forward(signal, info, context);
    ::raise(signal);  // to return would be to wait in the fault again
    return;
  }
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  if (!installed.load(std::memory_order_acquire) || !report.window->contains(info->si_addr)) return forward(signal, info, context);
  const WindowOffset offset = report.window->offset_of(info->si_addr);
  PoisonReason reason{};
  const bool known = find_poison(*report.segment, report.slot, offset, reason);
  if (guard != nullptr) leave_copy(known ? reason.status : Status::PeerLost, context);
  print(signal, address, offset, known ? &reason : nullptr);
  forward(signal, info, context);
}

}  // namespace

void install_fault_report(const Window& window, const StateSegment& segment, const RegionTable& regions, RankId rank, RankSlot slot) {
  report = {&window, &segment, &regions, rank, slot};
  installed.store(true, std::memory_order_release);
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  DSM_CHECK(::sigaction(SIGBUS, &action, &previous_bus) == 0 && ::sigaction(SIGSEGV, &action, &previous_segv) == 0);
}

void remove_fault_report() {
  if (!installed.exchange(false)) return;
  // Only if nobody has put a handler above ours since.
  struct sigaction now{};
  for (const int signal : {SIGBUS, SIGSEGV}) {
    ::sigaction(signal, nullptr, &now);
    if (now.sa_sigaction == on_signal) ::sigaction(signal, signal == SIGBUS ? &previous_bus : &previous_segv, nullptr);
  }
}

Status guarded_copy(void* dst, const void* src, size_t bytes) {
  sigjmp_buf here;
  sigjmp_buf* const outer = guard;
  if (sigsetjmp(here, 0) != 0) {
    guard = outer;
    return static_cast<Status>(guard_status);
  }
  guard = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memmove(dst, src, bytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guard = outer;
  return Status::Ok;
}

}  // namespace farpage::memory
