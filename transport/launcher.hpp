// Was this process started by a launcher of MPI jobs? Only then is MPI there to find other ranks. Any thread.
#pragma once

#include "runtime/base/options.hpp"

namespace farpage::transport {

/// By what launchers leave in the environment: Open MPI, PMIx (PRRTE, Slurm), PMI (MPICH, Slurm).
inline bool launched_by_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"})
    if (!foreign_environment(name).empty()) return true;
  return false;
}

}  // namespace farpage::transport
