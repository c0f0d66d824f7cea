"""The inference study: marginals from weighted and collapsed samples."""
