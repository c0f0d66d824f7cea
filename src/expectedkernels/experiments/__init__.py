"""Experiments: what the command line runs, from data to a table and a picture."""
