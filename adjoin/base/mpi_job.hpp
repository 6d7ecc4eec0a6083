#pragma once

// What the environment says about the MPI job of this process; nothing here calls MPI.
namespace adjoin {

/// Whether this process was started by mpirun or srun as one rank of an MPI job.
bool started_by_mpi();

/// The number of ranks of that MPI job, read from the environment (no MPI call): 1 where there is none.
int mpi_job_size();

/// This process's rank in that MPI job, read from the environment: 0 where there is none.
/// An error that a program finds before launch is found by every rank: print it on rank 0 only.
int mpi_job_rank();

/// How many ranks of the job are on this host, read from the environment; mpi_job_size() where it does not say.
int mpi_job_ranks_here();

/// The place of this process among the job's ranks on this host, read from the environment; its rank where it does not say.
int mpi_job_place_here();

}  // namespace adjoin
