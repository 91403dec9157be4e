// The one file with mpi.h: how ranks find each other, over a communicator of our own.
//
// MPI may be initialised by the application before dsm_init, after it, or never. Open MPI ends a process that calls MPI_Init
// twice, so where the runtime has been first this file answers the application's MPI_Init and MPI_Finalize itself, by the
// standard's profiling interface: libfarpage exports MPI_Init, MPI_Init_thread and MPI_Finalize, which forward to PMPI_*
// unless the runtime has initialised MPI before the application did. (The linker takes ours because libfarpage comes before
// libmpi; a program linked the other way round calls dsm_init after MPI_Init and dsm_finalize before MPI_Finalize.)
// MPI ends when neither the application nor the runtime needs it, whichever comes last.
//
// Threads: we call MPI from the thread that calls dsm_init and dsm_finalize only, so MPI_THREAD_FUNNELED is enough when that is the main
// thread. Where we initialise MPI we ask for MPI_THREAD_MULTIPLE: the application may want it later and cannot start MPI again.
#include "transport/bootstrap.hpp"

#include <mpi.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <ctime>

#include "runtime/base/clock.hpp"

namespace farpage::transport {
namespace {

// Who needs MPI at the moment: it is finalized when neither does.
std::atomic<bool> started_by_us{false};
std::atomic<bool> end_is_due{false};  // the application has called MPI_Finalize while the runtime still used MPI
std::atomic<bool> runtime_uses{false};
std::atomic<bool> application_uses{false};

bool initialised() {
  int flag = 0;
  PMPI_Initialized(&flag);
  return flag != 0;
}
bool finalised() {
  int flag = 0;
  PMPI_Finalized(&flag);
  return flag != 0;
}

void finalize_if_unused() {
  if ((started_by_us || end_is_due) && !runtime_uses && !application_uses && initialised() && !finalised()) PMPI_Finalize();
}

Result<> mpi_result(int code, const char* what) {
  if (code == MPI_SUCCESS) return success();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  PMPI_Error_string(code, text, &length);
  return error(Status::Internal, "{}: {}", what, std::string(text, static_cast<size_t>(length)));
}

class MpiBootstrap final : public Bootstrap {
 public:
  ~MpiBootstrap() override {
    if (communicator_ != MPI_COMM_NULL && !finalised()) PMPI_Comm_free(&communicator_);
    runtime_uses = false;
    finalize_if_unused();
  }

  Result<> open() {
    if (finalised()) return error(Status::InvalidArgument, "MPI has been finalized already");
    ours_ = !initialised();
    if (ours_) {
      int provided = 0;
      DSM_TRY(mpi_result(PMPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread"));
      started_by_us = true;
    }
    runtime_uses = true;
    DSM_TRY(mpi_result(PMPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup"));
    PMPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
    PMPI_Comm_rank(communicator_, &rank_);
    PMPI_Comm_size(communicator_, &size_);
    return success();
  }

  RankId rank() const override { return RankId{static_cast<uint16_t>(rank_)}; }
  uint32_t size() const override { return static_cast<uint32_t>(size_); }

  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine) override {
    DSM_TRY(usable());
    const auto ranks = static_cast<size_t>(size_);
    auto memory = std::make_unique<Gather>();
    Gather& gather = *memory;
    gather.mine.assign(mine.begin(), mine.end());
    gather.my_size = static_cast<int>(mine.size());
    gather.sizes.resize(ranks);
    gather.begins.resize(ranks);
    MPI_Request request;
    DSM_TRY(mpi_result(PMPI_Iallgather(&gather.my_size, 1, MPI_INT, gather.sizes.data(), 1, MPI_INT, communicator_, &request),
                       "MPI_Iallgather"));
    if (auto sizes_here = wait(request); !sizes_here.ok()) return abandon(std::move(memory), sizes_here);
    int total = 0;
    for (size_t rank = 0; rank < ranks; rank++) {
      gather.begins[rank] = total;
      total += gather.sizes[rank];
    }
    gather.all.resize(static_cast<size_t>(total));
    DSM_TRY(mpi_result(PMPI_Iallgatherv(gather.mine.data(), gather.my_size, MPI_BYTE, gather.all.data(), gather.sizes.data(),
                                        gather.begins.data(), MPI_BYTE, communicator_, &request),
                       "MPI_Iallgatherv"));
    if (auto all_here = wait(request); !all_here.ok()) return abandon(std::move(memory), all_here);
    std::vector<std::vector<std::byte>> parts;
    for (size_t rank = 0; rank < ranks; rank++) {
      const auto begin = gather.all.begin() + gather.begins[rank];
      parts.emplace_back(begin, begin + gather.sizes[rank]);
    }
    return parts;
  }

  Result<> barrier() override {
    DSM_TRY(usable());
    MPI_Request request;
    DSM_TRY(mpi_result(PMPI_Ibarrier(communicator_, &request), "MPI_Ibarrier"));
    return wait(request);
  }

  std::string description() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    PMPI_Get_library_version(text, &length);
    std::string version(text, static_cast<size_t>(length));
    version = version.substr(0, version.find(','));
    return version + (ours_ ? ", initialised by the runtime" : ", initialised by the application");
  }

 private:
  struct Gather {
    std::vector<std::byte> mine, all;
    std::vector<int> sizes, begins;
    int my_size = 0;
  };

  // A collective that ran out of time cannot be cancelled: MPI may still write there, so the memory is never freed.
  static Error abandon(std::unique_ptr<Gather> memory, const Result<>& why) {
    static std::vector<std::unique_ptr<Gather>>* const abandoned = new std::vector<std::unique_ptr<Gather>>;
    abandoned->push_back(std::move(memory));
    return why.failure();
  }

  static Result<> usable() {
    if (finalised()) return error(Status::InvalidArgument, "MPI was finalized before dsm_finalize");
    return success();
  }

  // MPI's own waits poll without pause, and ranks outnumber cores: test, give way, then nap.
  Result<> wait(MPI_Request request) const {
    const SteadyClock clock;
    const uint64_t begin = clock.now_ns();
    for (;;) {
      int done = 0;
      DSM_TRY(mpi_result(PMPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
      if (done != 0) return success();
      const uint64_t waited = clock.now_ns() - begin;
      if (waited > kTimeoutNs) return error(Status::TimedOut, "the other ranks did not take part within {} s", kTimeoutNs / 1'000'000'000);
      if (waited < 2'000'000) {
        sched_yield();
      } else {
        const timespec nap{0, 200'000};
        nanosleep(&nap, nullptr);
      }
    }
  }

  static constexpr uint64_t kTimeoutNs = 300'000'000'000;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  bool ours_ = false;
};

}  // namespace

Result<std::unique_ptr<Bootstrap>> open_bootstrap(bool launched) {
  if (!launched && !(initialised() && !finalised())) return make_single_bootstrap();
  auto bootstrap = std::make_unique<MpiBootstrap>();
  DSM_TRY(bootstrap->open());
  return std::unique_ptr<Bootstrap>(std::move(bootstrap));
}

}  // namespace farpage::transport

// The application's own calls, when the runtime may have been first.
extern "C" {
#define DSM_EXPORTED __attribute__((visibility("default")))

DSM_EXPORTED int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  using namespace farpage::transport;
  application_uses = true;
  if (started_by_us && !finalised()) return PMPI_Query_thread(provided);
  return PMPI_Init_thread(argc, argv, required, provided);
}

DSM_EXPORTED int MPI_Init(int* argc, char*** argv) {
  using namespace farpage::transport;
  application_uses = true;
  if (started_by_us && !finalised()) return MPI_SUCCESS;
  return PMPI_Init(argc, argv);
}

DSM_EXPORTED int MPI_Finalize(void) {
  using namespace farpage::transport;
  application_uses = false;
  if (!started_by_us && !runtime_uses) return PMPI_Finalize();
  end_is_due = true;
  finalize_if_unused();
  return MPI_SUCCESS;
}
}
