"""Pivots: candidates, profiling, selection, pools. Selection and profiling meet only through the profile record."""
