"""DistDL's names over calls of adjoin, so that DistDL's own tests can examine adjoin (tools/distdl_tests).

It is no port of DistDL: it has what the tests ask for, and is not installed. Partitions are arithmetic on the ranks of a
root communicator; a layer turns them into layouts of adjoin and lets adjoin move, compute and differentiate.
"""

from distdl import nn

__all__ = ["nn"]
