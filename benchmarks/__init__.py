"""Benchmarks: ratios measured in one run, compared with the computer's own limit."""
