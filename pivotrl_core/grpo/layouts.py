"""The layouts of a batch, which are one in their mathematics: prefix trees, and padded lines where trees are not exact.

Rows of both have the same targets in the same order, so that losses need not know which they come from. Which layout a
model can have is told by `engines/sharing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pivotrl_core.grpo.choices import BatchLayout
from pivotrl_core.grpo.padded_rows import PaddedRow, build_padded_row, fill_padded_rows
from pivotrl_core.grpo.prefix_tree import Fill, TargetSequence, TreeRow, build_tree_row
from pivotrl_core.grpo.tree_attention import tree_attention

Row = TreeRow | PaddedRow


def build_row(sequences: Sequence[TargetSequence], layout: BatchLayout, lead: int = 0) -> Row:
    """One row of sequences, of a tree behind so many tokens.

    Raises:
        ValueError: one of them has no target, or one at its first token.
    """
    return build_padded_row(sequences) if layout is BatchLayout.PADDED else build_tree_row(sequences, lead)


def fill_of(layout: BatchLayout) -> Fill | None:
    """How many sequences a row takes: for `plan_rows`, which counts the nodes of a tree where it is given none."""
    return fill_padded_rows if layout is BatchLayout.PADDED else None


def row_attention(model: Any, layout: BatchLayout) -> AbstractContextManager[None]:
    """How the model attends while rows of this layout are computed: a padded line is an ordinary one."""
    return nullcontext() if layout is BatchLayout.PADDED else tree_attention(model)
