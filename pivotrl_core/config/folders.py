"""Where the inputs and results of a run lie, relative to its root, for stages, flows and reports alike.

Each group below has a folder for each stage key of `graph.yaml`. `dvc.yaml` has the same paths, in DVC's own words.
"""

from __future__ import annotations

PULLED = "data/pulled"
CANDIDATES = "data/candidates"
PROFILES = "data/profiles"
POOLS = "data/pools"

MODELS = "models"
BASE_POLICY = "models/base"
"""The base policy pi_0."""

WARMUP = "reports/warmup"
TRAININGS = "reports/train"
EVALUATIONS = "reports/evaluate"
COMPARISON = "reports/compare"
TIMINGS = "reports/timings"
