"""A stem is attended to by a kernel on a CPU and by products elsewhere: both are ordinary attention."""

from __future__ import annotations

import torch

from pivotrl_core.engines.branches import StemCache, attend_by_products, attend_whole


def test_a_stem_is_attended_to_alike_by_the_kernel_and_by_products() -> None:
    generator = torch.Generator().manual_seed(0)
    query, keys, values = (torch.randn(1, 3, many, 16, generator=generator) for many in (7, 33, 33))
    for found, expected in zip(attend_whole(query, keys, values), attend_by_products(query, keys, values), strict=True):
        torch.testing.assert_close(found, expected)
    output, log_sum = attend_whole(query, keys, values)
    scores = query @ keys.transpose(-1, -2)
    torch.testing.assert_close(output, torch.softmax(scores, dim=-1) @ values)
    torch.testing.assert_close(log_sum, scores.logsumexp(dim=-1))
    bias = torch.zeros(1, 1, 7, 33).masked_fill_(torch.rand(1, 1, 7, 33, generator=generator) < 0.5, -1e30)
    for attend in (attend_whole, attend_by_products):
        output, log_sum = attend(query, keys, values, bias)
        torch.testing.assert_close(output, torch.softmax(scores + bias, dim=-1) @ values)
        torch.testing.assert_close(log_sum, (scores + bias).logsumexp(dim=-1))


def test_rows_that_see_unequal_beginnings_of_one_stem_are_computed_together_and_alike() -> None:
    generator = torch.Generator().manual_seed(1)
    lead, rests = (torch.randn(2, count, 3, tokens, 16, generator=generator) for count, tokens in ((1, 9), (2, 12)))
    stems = StemCache([rests[0]], [rests[1]], ([lead[0]], [lead[1]]))
    own, visible = [0, 0, 0, 1, 1], [9, 12, 21, 15, 15]  # of the lead's 9 tokens and the stem's 12
    stems.assign(own, visible, rep=2)
    query = torch.randn(5, 3, 2, 16, generator=generator)
    segments = stems.attend(0, query)
    total = torch.stack([log_sum for _, log_sum in segments]).logsumexp(dim=0)
    found = torch.stack([output * (log_sum - total).exp()[..., None] for output, log_sum in segments]).sum(dim=0)
    for row, (stem, count) in enumerate(zip(own, visible, strict=True)):
        keys, values = (torch.cat([lead[at, 0], rests[at, stem]], dim=1)[:, :count] for at in (0, 1))
        scores = query[row] @ keys.transpose(-1, -2)
        torch.testing.assert_close(found[row], torch.softmax(scores, dim=-1) @ values)
        torch.testing.assert_close(total[row], scores.logsumexp(dim=-1))
