"""The regression study: predictions from rows with missing values."""
