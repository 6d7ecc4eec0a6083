from distdl.utilities import slicing, torch

__all__ = ["slicing", "torch"]
