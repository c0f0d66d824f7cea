"""Discrepancies between distributions, made of expected kernels."""
