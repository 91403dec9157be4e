#include "remote_rank.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "runtime/memory/fault_report.hpp"

namespace farpage::memory {
namespace {

sigjmp_buf access_point;
void leave_access(int signal) { siglongjmp(access_point, signal); }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_NODEFER;
  ::sigaction(signal, &action, nullptr);
}

/// The rank's side.
class RankProcess {
 public:
  RankProcess(Window& window, StateSegment& segment, RankSlot slot, int errors)
      : window_(window), segment_(segment), regions_(segment), slot_(slot), errors_(errors) {}

  Answer perform(const Request& request) {
    Answer answer{};
    if (const int signal = sigsetjmp(access_point, 1); signal != 0) return {0, signal, 0};
    auto* word = reinterpret_cast<std::atomic<uint64_t>*>(window_.at(request.offset));
    switch (request.op) {
      case Op::Load: answer.value = word->load(); break;
      case Op::Store: word->store(request.value); break;
      case Op::Count:
        for (uint64_t i = 0; i < request.value; i++) word->fetch_add(1);
        break;
      case Op::SystemCall: {
        int ends[2];
        if (::pipe(ends) != 0) return {0, 0, errno};
        const Fd out(ends[0]), in(ends[1]);
        answer.error = ::write(in.get(), word, sizeof *word) == sizeof *word ? 0 : errno;
        if (answer.error == 0) (void)!::read(out.get(), &answer.value, sizeof answer.value);
        break;
      }
      case Op::GuardedCopy:
      case Op::GuardedStore: {
        install_fault_report(window_, segment_, regions_, RankId{static_cast<uint16_t>(slot_)}, slot_);
        uint64_t bytes = request.value;
        const Status status = request.op == Op::GuardedCopy ? guarded_copy(&bytes, word, sizeof bytes) : guarded_copy(word, &bytes, sizeof bytes);
        answer = {bytes, 0, static_cast<int32_t>(status)};
        remove_fault_report();
        break;
      }
      case Op::LoadReported:
        ::signal(SIGBUS, SIG_DFL);
        ::signal(SIGSEGV, SIG_DFL);
        ::dup2(errors_, STDERR_FILENO);
        install_fault_report(window_, segment_, regions_, RankId{static_cast<uint16_t>(slot_)}, slot_);
        answer.value = word->load();
        break;
      case Op::Fork: {
        const pid_t child = ::fork();
        if (child == 0) {
          ::signal(SIGSEGV, SIG_DFL);
          (void)word->load();
          ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        answer.value = WIFSIGNALED(status) ? static_cast<uint64_t>(WTERMSIG(status)) : 0;
        break;
      }
      case Op::End: ::_exit(0);
    }
    return answer;
  }

 private:
  Window& window_;
  StateSegment& segment_;
  RegionTable regions_;
  RankSlot slot_;
  int errors_;
};

[[noreturn]] void run_rank(uint64_t job, RankSlot slot, WindowChoice choice, const SegmentParameters& parameters, int errors) {
  bind_to_parent();
  auto member = DomainMember::join(job, 0, slot, kPatienceMs);
  if (!member.ok()) ::_exit(80);
  auto window = Window::map(choice, member->window_file.get());
  if (!window.ok()) ::_exit(81);
  auto segment = StateSegment::attach(std::move(member->state_segment), parameters);
  if (!segment.ok()) ::_exit(82);
  // Kept open for life: without a descriptor waiters would read zeros.
  const auto descriptor = open_fault_descriptor(window->base(), choice.bytes);
  if (!descriptor.ok() || !member->send_fault_descriptor(descriptor.value().get()).ok()) ::_exit(83);
  handle(SIGBUS, leave_access);
  handle(SIGSEGV, leave_access);
  RankProcess rank(*window, *segment, slot, errors);
  for (Request request; ::recv(member->connection.get(), &request, sizeof request, 0) == sizeof request;) {
    const Answer answer = rank.perform(request);
    if (::send(member->connection.get(), &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) break;
  }
  ::_exit(0);
}

bool readable(int fd, int timeout_ms) {
  pollfd watched{fd, POLLIN, 0};
  return ::poll(&watched, 1, timeout_ms) == 1;
}

}  // namespace

void bind_to_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(100);
}

WindowChoice test_window() {
  auto candidates = window_candidates("auto");
  REQUIRE(candidates.ok());
  std::vector<WindowChoice> small;
  for (WindowChoice choice : candidates.value()) small.push_back({choice.base, kTestWindowBytes});
  const uint64_t mask = probe_windows(small);
  REQUIRE(mask != 0);
  return small[static_cast<size_t>(__builtin_ctzll(mask))];
}

TestDomain::TestDomain(uint32_t ranks) : window_(test_window()) {
  static uint64_t domains = 0;
  const uint64_t job = (static_cast<uint64_t>(::getpid()) << 16) + domains++;
  const SegmentParameters parameters{window_.bytes, 0, ranks + 1, job};
  auto file = create_window_file(window_.bytes);
  REQUIRE(file.ok());
  file_ = std::move(*file);
  auto segment = StateSegment::create(parameters);
  REQUIRE(segment.ok());
  segment_.emplace(std::move(*segment));
  segment_->header().pids[0] = ::getpid();
  auto listener = DomainListener::open(job, 0);
  REQUIRE(listener.ok());
  for (uint32_t i = 0; i < ranks; i++) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) run_rank(job, i + 1, window_, parameters, ends[1]);
    ::close(ends[1]);
    ranks_.push_back({pid, Fd(), Fd(ends[0])});
  }
  auto members = listener->accept_members(ranks, {file_.get(), segment_->fd(), file_.get()}, kPatienceMs);
  REQUIRE(members.ok());
  auto pages = make_uffd_page_tables(file_.get(), reinterpret_cast<std::byte*>(window_.base), window_.bytes);
  REQUIRE(pages.ok());
  pages_ = std::move(*pages);
  for (DomainListener::Member& member : *members) {
    auto descriptor = DomainListener::receive_fault_descriptor(member, kPatienceMs);
    REQUIRE(descriptor.ok());
    CHECK(member.pid == ranks_[member.slot - 1].pid);
    pages_->add_rank(member.slot, std::move(*descriptor));
    ranks_[member.slot - 1].connection = std::move(member.connection);
  }
}

TestDomain::~TestDomain() {
  for (uint32_t i = 0; i < ranks_.size(); i++)
    if (ranks_[i].pid != 0) kill(i + 1);
}

void TestDomain::ask(RankSlot rank, Op op, WindowOffset offset, uint64_t value) {
  const Request request{op, offset, value};
  REQUIRE(::send(ranks_[rank - 1].connection.get(), &request, sizeof request, MSG_NOSIGNAL) == sizeof request);
}

std::optional<Answer> TestDomain::answer(RankSlot rank, int timeout_ms) {
  Answer answer;
  const int connection = ranks_[rank - 1].connection.get();
  if (!readable(connection, timeout_ms) || ::recv(connection, &answer, sizeof answer, 0) != sizeof answer) return std::nullopt;
  return answer;
}

bool TestDomain::answered(RankSlot rank) { return readable(ranks_[rank - 1].connection.get(), 0); }

std::optional<PageFault> TestDomain::fault(RankSlot rank, int timeout_ms) {
  PageFault fault[1];
  if (!readable(pages_->fault_fd(rank), timeout_ms) || pages_->read_faults(rank, fault) != 1) return std::nullopt;
  return fault[0];
}

bool TestDomain::fault_or_answer(RankSlot rank) {
  pollfd watched[] = {{pages_->fault_fd(rank), POLLIN, 0}, {ranks_[rank - 1].connection.get(), POLLIN, 0}};
  REQUIRE(::poll(watched, 2, kPatienceMs) > 0);
  return (watched[0].revents & POLLIN) != 0;
}

void TestDomain::kill(RankSlot rank) {
  ::kill(pid(rank), SIGKILL);
  wait_end(rank);
}

int TestDomain::wait_end(RankSlot rank) {
  int status = 0;
  REQUIRE(::waitpid(pid(rank), &status, 0) == pid(rank));
  ranks_[rank - 1].pid = 0;
  return status;
}

std::string TestDomain::messages(RankSlot rank) {
  std::string text;
  char part[512];
  for (;;) {
    REQUIRE(readable(ranks_[rank - 1].errors.get(), kPatienceMs));
    const ssize_t got = ::read(ranks_[rank - 1].errors.get(), part, sizeof part);
    if (got <= 0) return text;
    text.append(part, static_cast<size_t>(got));
  }
}

}  // namespace farpage::memory
