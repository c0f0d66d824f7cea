"""Benchmarks: ratios measured in one run, beside the machine's own limit."""
