"""A stem is attended to by a kernel on a CPU and by products elsewhere: both are ordinary attention."""

from __future__ import annotations

import torch

from pivotrl_core.engines.branches import attend_by_products, attend_whole


def test_a_stem_is_attended_to_alike_by_the_kernel_and_by_products() -> None:
    generator = torch.Generator().manual_seed(0)
    query, keys, values = (torch.randn(1, 3, many, 16, generator=generator) for many in (7, 33, 33))
    for found, expected in zip(attend_whole(query, keys, values), attend_by_products(query, keys, values), strict=True):
        torch.testing.assert_close(found, expected)
    output, log_sum = attend_whole(query, keys, values)
    scores = query @ keys.transpose(-1, -2)
    torch.testing.assert_close(output, torch.softmax(scores, dim=-1) @ values)
    torch.testing.assert_close(log_sum, scores.logsumexp(dim=-1))
