"""What the section `verifier` of the parameters makes of the graders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.config.tree import Config
from pivotrl_core.stages.context import Places
from pivotrl_core.stages.verification import verifier_here
from pivotrl_core.types import Action, Candidate, Message, Role, Split, ToolCall

WAIT, DONE = (json.dumps({"analysis": "", "plan": "", "commands": [], "task_complete": done}) for done in (False, True))


def configured(**verifier: Any) -> Config:
    return Config.model_validate({"arms": {"base": {}}, "verifier": verifier})


def candidate(domain: str, expert: Message) -> Candidate:
    return Candidate((Message(Role.USER, "Go on."),), (), expert, "t", 0, domain, Split.TRAIN, {})


@pytest.mark.parametrize(("settings", "reward"), [({}, 1.0), ({"terminal": {"refuse_early": True}}, 0.0)])
def test_a_claim_to_be_done_is_refused_where_the_parameters_say_so(
    tmp_path: Path, settings: dict[str, Any], reward: float
) -> None:
    verifier = verifier_here(configured(**settings), Places(tmp_path, tmp_path))
    verdict = verifier.verify(candidate("terminal", Message(Role.ASSISTANT, WAIT)), Action(content=DONE))
    assert (verdict.components["complete"], verdict.reward) == ("early", reward)


def test_an_index_is_looked_for_in_the_checkout_wherever_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, elsewhere = tmp_path / "checkout", tmp_path / "worktree"
    for folder in (checkout / "pages", elsewhere):
        folder.mkdir(parents=True)
    (checkout / "pages" / "nile.txt").write_text("The Nile is the longest river of Africa.")
    (checkout / "pages" / "rhine.txt").write_text("Basel lies at a bend.")
    monkeypatch.chdir(elsewhere)
    relative = verifier_here(configured(search={"index": "pages"}), Places(checkout, tmp_path))
    absolute = verifier_here(configured(search={"index": str(checkout / "pages")}), Places(elsewhere, tmp_path))
    assert relative.version == absolute.version
    asked, other = (
        ToolCall("search", json.dumps({"query": query})) for query in ("longest river Africa", "Nile river length")
    )
    verdict = relative.verify(candidate("search", Message(Role.ASSISTANT, "", (asked,))), Action(tool_calls=(other,)))
    assert verdict.components["executed"]
    assert verdict.reward == 1.0
