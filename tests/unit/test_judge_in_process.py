"""A model in this process as the judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.judge_models import EmbeddedModel
from pivotrl_core.engines.model import load_model
from pivotrl_core.engines.protocol import SamplingConfig
from pivotrl_core.errors import ConfigError
from pivotrl_core.types import Action, Candidate, Message, Role
from pivotrl_core.verifiers.judge.language_model import JudgeSettings, LanguageModelJudge
from pivotrl_core.verifiers.judge.prompts import Rubrics, state_text
from pivotrl_core.verifiers.judged import Judgement
from tests.tiny_models import COMPUTE

CANDIDATE = Candidate((Message(Role.USER, "Does it come on Monday?"),), (), Message(Role.ASSISTANT, "Yes."), "t", 0)
SAME, OTHER = Action(content="Yes!"), Action(content="No.")


def learn_by_heart(folder: Path, questions: Sequence[tuple[Sequence[Message], str]], out: Path) -> None:
    """Train a model until it answers each question with its label, and save it."""
    policy = load_model(folder, COMPUTE)
    renderer = ChatRenderer(policy.tokenizer, "hermes")
    lessons = [
        (renderer.state_ids(messages, ()), (*renderer.encode(label), renderer.eos_id)) for messages, label in questions
    ]
    model = policy.model.requires_grad_(True).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss = 1.0
    while loss > 0.02:
        loss = 0.0
        for prompt, answer in lessons:
            ids = torch.tensor([[*prompt, *answer]])
            labels = ids.clone()
            labels[0, : len(prompt)] = -100
            lesson = model(ids, labels=labels).loss
            lesson.backward()
            loss += lesson.item()
        optimiser.step()
        optimiser.zero_grad()
    model.eval().save_pretrained(out)
    policy.tokenizer.save_pretrained(out)


def test_a_model_in_this_process_can_judge(tiny_llama: Path, tmp_path: Path, deterministic: None) -> None:
    (tmp_path / "rubrics").mkdir()
    (tmp_path / "rubrics" / "default.txt").write_text("Same?\n-----\n$a\n$b")
    rubrics = Rubrics(tmp_path / "rubrics")

    def question(action: Action) -> list[Message]:
        asked = rubrics.ask("tool", state_text(CANDIDATE, 4000), "Yes.", action.content)
        return [Message(Role.SYSTEM, asked.system), Message(Role.USER, asked.user)]

    lessons = [(question(SAME), "[[A=B]]"), (question(OTHER), "[[A!=B]]")]
    learn_by_heart(tiny_llama, lessons, tmp_path / "model")
    embedded = EmbeddedModel(tmp_path / "model", COMPUTE, SamplingConfig(0.0, 24))
    one = LanguageModelJudge(embedded, rubrics, JudgeSettings(swap=False))
    assert one.compare(CANDIDATE, SAME).judgement is Judgement.SAME
    assert one.compare(CANDIDATE, OTHER).judgement is Judgement.DIFFERENT
    raw = LanguageModelJudge(EmbeddedModel(tiny_llama, COMPUTE, SamplingConfig(0.0, 8)), rubrics, JudgeSettings())
    assert raw.compare(CANDIDATE, OTHER).judgement is Judgement.UNREADABLE
    assert raw.version != one.version


def test_a_model_that_cannot_judge_is_an_error_that_names_its_setting(tiny_llama: Path, tmp_path: Path) -> None:
    cramped = EmbeddedModel(tiny_llama, COMPUTE, SamplingConfig(0.0, 4096))
    with pytest.raises(ConfigError, match=r"verifier\.judge\.max_tokens"):
        LanguageModelJudge(cramped, Rubrics(), JudgeSettings()).compare(CANDIDATE, OTHER)
    with pytest.raises(ConfigError, match=r"verifier\.judge\.model"):
        EmbeddedModel(tmp_path, COMPUTE, SamplingConfig())
