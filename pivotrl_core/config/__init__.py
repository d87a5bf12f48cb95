"""The configuration: one pydantic tree that params.yaml loads into, and the graph of stages that follows from it."""

from pivotrl_core.config.loading import load_config, parse_config
from pivotrl_core.config.tree import Config

__all__ = ["Config", "load_config", "parse_config"]
