"""Circuits: what they are and what they answer."""
