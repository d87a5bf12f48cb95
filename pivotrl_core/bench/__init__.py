"""Benchmarks: ours beside public tools in one run, on the same model, ids and machine.

What each compares, and how it is made fair: docs/benchmarks.md. Nothing of the pipeline depends on this package.
"""
