"""Prompts that begin alike: what an engine computes once for many."""

from __future__ import annotations

from collections.abc import Sequence

from pivotrl_core.engines.protocol import Request

REWRITTEN = 8  # ids at a prompt's end that a later turn may render otherwise: `<think>`, say, that opens its answer
STEP_COST = 64  # of a decoding step in which nothing is written yet, in ids of a prompt

Plan = list[tuple[int, list[int]]]  # stems: the index of the longest prompt, and of all that share it


def common_prefix(sequences: Sequence[Sequence[int]]) -> int:
    """Number of ids that all sequences begin with."""
    ordered = sorted(tuple(ids) for ids in sequences)
    # What the first and the last in order share, all between them share too.
    first, last = ordered[0], ordered[-1]
    pairs = zip(first, last, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


def plan_stems(requests: Sequence[Request]) -> Plan:
    """Requests whose prompts are prefixes of one another, in a fixed order.

    The last REWRITTEN ids of a prompt may differ where that is cheaper: they are read step by step, as if written.
    """
    prompts = [request.prompt_ids for request in requests]
    return min((_plan(prompts, end) for end in (0, REWRITTEN)), key=lambda plan: _cost(prompts, plan))


def _plan(prompts: Sequence[tuple[int, ...]], end: int) -> Plan:
    """Stems of prompts that are prefixes of one another but for so many ids at their end."""
    kept = [prompt[: len(prompt) - end] if len(prompt) > end else prompt for prompt in prompts]
    stems: Plan = []
    for index in sorted(range(len(prompts)), key=lambda i: (kept[i], prompts[i]), reverse=True):
        if stems and prompts[stems[-1][0]][: len(kept[index])] == kept[index]:
            stems[-1][1].append(index)
        else:
            stems.append((index, [index]))
    return stems


def _cost(prompts: Sequence[tuple[int, ...]], plan: Plan) -> int:
    """Ids that are read, but for those that all prompts begin with, and the steps before all states are written on."""
    lead = common_prefix(prompts) if prompts else 0
    openings = [
        max(len(prompts[at]) - common_prefix([prompts[at], prompts[longest]]), 1) - 1
        for longest, members in plan
        for at in members
    ]
    read = sum(len(prompts[longest]) - lead for longest, _ in plan)
    return read + sum(openings) + STEP_COST * max(openings, default=0)
