"""Circuits from data: Chow-Liu trees, Strudel, mixtures, expectation maximisation."""
