"""Kernels in C: scores of stored records on the CPU, computed in one pass without a copy of any record."""
