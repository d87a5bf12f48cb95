"""Rewards and categories of NeMo Gym's verifiers, their defects among them, so that pools made here and there agree.

Facts of NVIDIA-NeMo/Gym, snapshot 07d6b0d, written anew. Nothing here is how this project would judge an action.
"""
