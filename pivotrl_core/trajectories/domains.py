"""The domain of a trajectory, from what its format says: it decides which verifier judges its turns."""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.types import Json

DOMAINS = ("tool", "terminal", "software", "search", "code")
_NAMES = (("terminus", "terminal"), ("terminal", "terminal"), ("swe_", "software"), ("search", "search"))


def named_domain(row: Mapping[str, Json]) -> str:
    """The domain that a row names, a plugged-in one too, else `tool`."""
    domain = row.get("domain")
    return domain if isinstance(domain, str) and domain else "tool"


def row_domain(row: Mapping[str, Json]) -> str:
    """The domain that a row names, else the one that NeMo Gym's fields tell, else `tool`."""
    if row.get("domain") in DOMAINS:
        return str(row["domain"])
    metadata, agent = row.get("metadata"), row.get("agent_ref")
    harness = str(metadata.get("harness", "")) if isinstance(metadata, Mapping) else ""
    name = str(agent.get("name", "")) if isinstance(agent, Mapping) else ""
    if harness.startswith("terminus") or (harness and "expected_answer" in row):
        return "terminal"
    if "pivot_tags" in row or "ref_patch" in row or "tool_name_match" in row:
        return "software"
    return next((domain for start, domain in _NAMES if start in name), "tool")
