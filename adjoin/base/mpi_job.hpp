#pragma once

// What the environment tells of the MPI job that this process is of; no MPI call.
namespace adjoin {

/// Whether this process was started by mpirun or srun as one rank of an MPI job.
bool started_by_mpi();

/// The number of ranks of that MPI job, read from the environment (no MPI call): 1 where there is none.
int mpi_job_size();

/// This process's rank in that MPI job, read from the environment: 0 where there is none.
/// What a program finds wrong before launch, every rank finds: print it on rank 0 only.
int mpi_job_rank();

/// How many of its ranks are on this host, read from the environment; mpi_job_size() where that does not tell.
int mpi_job_ranks_here();

}  // namespace adjoin
