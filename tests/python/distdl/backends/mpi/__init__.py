"""Partitions of the ranks of an MPI job."""
