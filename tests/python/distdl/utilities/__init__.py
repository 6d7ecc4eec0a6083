"""The three utilities that the tests use."""
