"""Evaluation: benchmarks, statistics, drift, and the comparison of arms."""
