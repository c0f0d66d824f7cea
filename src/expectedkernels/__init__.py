"""Exact expectations of kernels under probabilistic circuits."""
