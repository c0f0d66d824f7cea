"""The two studies of the paper, and one of missing values: `python -m studies`."""
