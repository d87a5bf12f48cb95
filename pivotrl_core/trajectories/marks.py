"""Metadata keys that mean something here. Only readers set them: a row's own keys of these names are not carried."""

from __future__ import annotations

ONLY_LAST_TURN = "only_last_turn"
"""True of a trajectory that stands for one turn (a pivot row): only its last message is the expert's."""

STATE_ONLY = "state_only"
"""Positions of assistant turns that belong to states but are not the expert's: demonstrations, turns of weight 0."""

LEFT_OUT = "left_out"
"""Counts, by name, of what of a row the agent never saw or did, and a reader therefore did not read."""

TOOLS_INFERRED = "tools_inferred"
"""True where the row has no tools, and the tools were made from the calls in it."""

HARNESS = "harness"
"""Name of the program that ran the agent, where how an action is written depends on it."""

RESERVED = frozenset(
    {"row_id", "turn_index", "nemo_row", ONLY_LAST_TURN, STATE_ONLY, LEFT_OUT, TOOLS_INFERRED, HARNESS}
)

GROUNDS = ("answers", "tests")
"""Keys of a row that verdicts stand on: they go with every turn whole, lists and long texts too."""
