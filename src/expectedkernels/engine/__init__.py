"""The engine: how blocks on a vtree are summed together."""
