"""Kernels as circuits."""
