"""The GRPO objective as pure functions on tensors: advantages, weights, loss, KL, prefix trees, metrics.

Not here: models, optimisers, sampling, files. `choices` needs no torch; import the other modules one by one.
"""
