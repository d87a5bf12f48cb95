"""Do two policies put the alternative actions of a state in the same order? Pure NumPy.

The paper's claim (Theorem 3.3, facts of the method): training on a pivot moves probability between successful and
unsuccessful actions and leaves the order among the others as it was. Here that is measured, not assumed: at each state
the log-probabilities of the same A alternatives under both policies are compared.

Kendall's tau-b of one state, over its pairs i < j: sum of s_a s_b / sqrt(sum of s_a^2 times sum of s_b^2), with s the
sign of the difference within a pair (0 for a tie). A state whose alternatives are all tied under either policy has no
tau; such states are counted, not scored as 0 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class OrderAgreement:
    """Agreement over states.

    Attributes:
        kendall_tau: mean tau-b over the states that have one, in [-1, 1]; None where no state has.
        same_order: share of all pairs whose sign is the same under both policies (tied in both counts as the same);
            None where there is no pair.
        states: number of states with a tau.
        undefined_states: states left out of the mean (fewer than two alternatives, or all tied).
        pairs: number of pairs behind `same_order`.
    """

    kendall_tau: float | None
    same_order: float | None
    states: int
    undefined_states: int
    pairs: int


def order_agreement(a: Sequence[npt.ArrayLike], b: Sequence[npt.ArrayLike]) -> OrderAgreement:
    """Compare logprobs_SA of two policies: S states, one row of A log-probabilities each; A may differ by state.

    Raises:
        ValueError: the policies differ in states or alternatives, or a log-probability is NaN.
    """
    if len(a) != len(b):
        raise ValueError(f"the policies were asked at {len(a)} and {len(b)} states; ask both at the same")
    taus: list[float] = []
    same = pairs = 0
    for state, (row_a, row_b) in enumerate(zip(a, b, strict=True)):
        signs_a, signs_b = _signs(row_a, state), _signs(row_b, state)
        if signs_a.shape != signs_b.shape:
            raise ValueError(f"state {state}: the policies scored different numbers of alternatives")
        same += int((signs_a == signs_b).sum())
        pairs += signs_a.size
        tau = _tau_b(signs_a, signs_b)
        if tau is not None:
            taus.append(tau)
    return OrderAgreement(
        kendall_tau=float(np.mean(taus)) if taus else None,
        same_order=same / pairs if pairs else None,
        states=len(taus),
        undefined_states=len(a) - len(taus),
        pairs=pairs,
    )


def _signs(row: npt.ArrayLike, state: int) -> npt.NDArray[np.int64]:
    """Sign of x_i - x_j for all pairs i < j; by comparison, for two values of -inf have no difference but are tied."""
    values_A = np.asarray(row, dtype=np.float64)
    if values_A.ndim != 1 or np.isnan(values_A).any():
        raise ValueError(f"state {state}: log-probabilities must be one row without NaN")
    first, second = np.triu_indices(len(values_A), k=1)
    x, y = values_A[first], values_A[second]
    return (x > y).astype(np.int64) - (x < y).astype(np.int64)


def _tau_b(signs_a: npt.NDArray[np.int64], signs_b: npt.NDArray[np.int64]) -> float | None:
    untied_a, untied_b = int((signs_a**2).sum()), int((signs_b**2).sum())
    if untied_a == 0 or untied_b == 0:
        return None
    return float((signs_a * signs_b).sum() / np.sqrt(untied_a * untied_b))
