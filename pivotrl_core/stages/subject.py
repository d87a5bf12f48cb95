"""The policy under evaluation, with what every part of an evaluation needs, and the base policy beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pivotrl_core.config.folders import BASE_POLICY
from pivotrl_core.config.tree import Config
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import ADAPTER, load_policy
from pivotrl_core.engines.plain_engine import embedded_engine
from pivotrl_core.engines.protocol import ChatEngine
from pivotrl_core.engines.sharing import choose_layout
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.grpo.choices import BatchLayout
from pivotrl_core.lanes import Lanes
from pivotrl_core.stages.context import Places, StageContext
from pivotrl_core.stages.engine import samples_elsewhere, server_engine
from pivotrl_core.stages.models import configured_renderer, policy_path
from pivotrl_core.stages.portions import Portions


@dataclass(frozen=True, slots=True)
class Subject:
    """A loaded policy, what samples from it, its renderer.

    `base` loads the base policy's model when it is first asked, which is after all sampling: a server may need the
    memory until then. It is None where the same weights are the base policy.
    `embedded` samples in this process; `engine` is the same one, or a server's in its stead (`sampled_elsewhere`).
    `portions` keeps what was measured so far, for the next start where this one is killed.
    """

    config: Config
    arm: str
    seed: int
    policy: Any
    base: Callable[[], Any] | None
    embedded: TransformersEngine
    engine: ChatEngine
    renderer: ChatRenderer
    portions: Portions
    places: Places

    @property
    def lanes(self) -> Lanes:
        """How what is measured is cut and run."""
        return self.embedded.lanes

    @property
    def layout(self) -> BatchLayout:
        """How sequences are laid out that are scored."""
        return choose_layout(self.embedded.model, self.config.compute.layout)

    @contextmanager
    def policy_model(self) -> Iterator[Any]:
        """The policy's inner model."""
        yield self.embedded.model

    @contextmanager
    def base_model(self) -> Iterator[Any]:
        """The base policy's inner model: the same one with its adapter off, or another."""
        with self.policy.model.disable_adapter() if self.policy.adapter else nullcontext():
            yield self.embedded.model if self.base is None else self.base()

    def compute_in_fp32(self) -> None:
        """From here on compute both models in fp32: bf16's rounding alone is a KL of 0.0015 between equal policies."""
        self.embedded.model.float()
        if self.base is not None:
            self.base().float()


def load_subject(context: StageContext, arm: str, seed: int, folder: Path) -> Subject:
    """Load the policy in `folder`; the base policy, where that is another model, is loaded when it is needed."""
    config = context.config
    base_folder = policy_path(context, BASE_POLICY)
    policy = load_policy(folder, base_folder, config.compute)
    same = folder == base_folder or (folder / ADAPTER).exists()
    base = None if same else cache(lambda: load_policy(base_folder, base_folder, config.compute).model)
    renderer = configured_renderer(policy.tokenizer, config.data)
    engine = embedded_engine(policy.model, [renderer.eos_id], lanes=config.compute.lane_plan)
    portions = Portions(context.scratch / "portions", engine)
    return Subject(
        config,
        arm,
        seed=seed,
        policy=policy,
        base=base,
        embedded=engine,
        engine=engine,
        renderer=renderer,
        portions=portions,
        places=context.places,
    )


@contextmanager
def sampled_elsewhere(context: StageContext, subject: Subject, policy: str) -> Iterator[Subject]:
    """The subject with the engine that the configuration asks for, while the block lasts; `policy` is its folder."""
    if not samples_elsewhere(context, "evaluate"):
        yield subject
        return
    with server_engine(context, "evaluate", policy, subject.renderer) as engine:
        yield replace(subject, engine=engine, portions=replace(subject.portions, engine=engine))
