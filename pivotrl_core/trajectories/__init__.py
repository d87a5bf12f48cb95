"""Trajectories: one reader per public format, validation, de-duplication, split by trajectory, drops with reasons."""
