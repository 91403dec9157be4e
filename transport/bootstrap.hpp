// How ranks find each other before any of our own transports run: rank, size, and two collectives. bootstrap_mpi.cpp is the
// one file with mpi.h. Called from the thread that calls dsm_init / dsm_finalize, by all ranks together.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace farpage::transport {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual RankId rank() const = 0;
  virtual uint32_t size() const = 0;
  /// Every rank's bytes, in rank order; sizes may differ. Collective. Sleeps rather than spins while it waits.
  virtual Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine) = 0;
  virtual Result<> barrier() = 0;
  /// "Open MPI 4.1.4, initialised by the application", for dsm-info.
  virtual std::string description() const = 0;
};

/// MPI, initialised here unless the application did; ended by the destructor only if it was initialised here.
/// Without a launcher the job is one rank and MPI is not touched.
Result<std::unique_ptr<Bootstrap>> open_bootstrap(bool launched);

/// One rank, no MPI: programs started without mpirun, and tests.
std::unique_ptr<Bootstrap> make_single_bootstrap();

}  // namespace farpage::transport
