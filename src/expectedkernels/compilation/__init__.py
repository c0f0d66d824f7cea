"""Graphical models, and how they become circuits."""
