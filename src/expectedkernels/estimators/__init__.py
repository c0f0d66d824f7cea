"""Kernel models that accept missing values, with the conventions of scikit-learn."""
