"""Stages: one function each, configuration and input paths in, output files out. What DVC runs."""
