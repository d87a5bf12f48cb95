"""The embedded domain: the help desk of a small shop. Reading order: policy, database, catalogue, families, user."""
