"""Samplers and importance weights."""
