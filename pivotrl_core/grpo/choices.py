"""The named choices of the GRPO objective. No torch here, so that the configuration can import them."""

from __future__ import annotations

from enum import StrEnum


class Baseline(StrEnum):
    """What is subtracted from a reward: the group's mean, or the mean of the other rewards of the group (RLOO)."""

    MEAN = "mean"
    LEAVE_ONE_OUT = "leave_one_out"


class AdvantageNormalisation(StrEnum):
    """Whether a centred reward is divided by the group's standard deviation (GRPO) or left as it is (Dr. GRPO)."""

    GROUP_STD = "group_std"
    NONE = "none"


class LossNormalisation(StrEnum):
    """How token losses are averaged over the batch of one optimiser step; the equations stand in `weights.py`."""

    GRPO = "grpo"
    DR_GRPO = "dr_grpo"
    DAPO = "dapo"
    BNPO = "bnpo"


class RatioLevel(StrEnum):
    """Importance ratio per token (GRPO), or one per sequence: the geometric mean of its token ratios (GSPO)."""

    TOKEN = "token"  # noqa: S105 (a unit of text, not a secret)
    SEQUENCE = "sequence"


class KLEstimator(StrEnum):
    """Per-token estimators of KL(policy || reference) from sampled tokens; `kl.py` says what each one's gradient is."""

    K1 = "k1"
    K2 = "k2"
    K3 = "k3"


class BatchLayout(StrEnum):
    """How the sequences of a batch are computed: as prefix trees, or as padded lines; `auto`: whichever is exact."""

    AUTO = "auto"
    TREE = "tree"
    PADDED = "padded"
