"""The two studies of the paper, which run from the repository: `expectedkernels reproduce`."""
