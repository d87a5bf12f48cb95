"""Composition only: which tasks, in what order, with what parameters; deployments and the command line."""
