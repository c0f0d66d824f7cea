"""Tables, schemas, evidence and chunks: what users pass in, read once."""
