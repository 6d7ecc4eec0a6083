"""The arithmetic of halos, by adjoin's windows."""
