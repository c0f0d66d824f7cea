"""Circuits and their queries."""
