"""The only backend is MPI."""
