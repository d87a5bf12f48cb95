"""How actions are compared with the expert's, and what they earn."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pivotrl_core.config.base import Probability, Section
from pivotrl_core.config.judge import JudgeConfig
from pivotrl_core.config.service import ServiceConfig
from pivotrl_core.verifiers.comparators import Comparator
from pivotrl_core.verifiers.nemo_gym.settings import read_settings
from pivotrl_core.verifiers.settings import CallCredit

ArgumentPath = Annotated[str, Field(min_length=1, max_length=200)]


class RewardConfig(Section):
    """What decisions earn. Success as profiles count it is `profile.success_threshold`, at most `success`."""

    success: Probability = Field(1.0, description="of an action that is as good as the expert's")
    failure: Probability = Field(0.0, description="of any other; below success")
    malformed: Probability = Field(0.0, description="of one that cannot be read; not above failure")
    partial: bool = Field(
        False,
        description="a failure earns failure + credit (success - failure), such as of calls that are partly right",
    )

    @model_validator(mode="after")
    def _are_in_order(self) -> Self:
        if not self.malformed <= self.failure < self.success:
            raise ValueError("reward: expected malformed <= failure < success")
        return self


class SoftwareConfig(Section):
    """Turns of coding agents (rows of domain software)."""

    name_only: bool = Field(False, description="the tool's category decides alone, as in the paper")
    line_overlap: Probability = Field(
        0.8, description="lines shared by two views / lines of the longer one from which they are the same"
    )
    test_seconds: float = Field(
        60.0, gt=0.0, le=3600.0, description="seconds of the tests that a row names, and of a command, in the sandbox"
    )


class TerminalConfig(Section):
    """Turns of terminal agents (rows of domain terminal)."""

    similarity_threshold: Probability | None = Field(
        None, description="similarity from which commands that were not executed are the same; none: no similarity is"
    )
    refuse_early: bool = Field(False, description="a claim to be done where the expert goes on is refused")
    vary: bool = Field(
        True, description="commands must have one effect in a changed copy of the workspace too, not in this one alone"
    )


class SearchConfig(Section):
    """Turns of browsing agents (rows of domain search)."""

    query_similarity: Probability = Field(
        0.8, description="words shared by two queries / all their words from which they are the same"
    )
    result_overlap: Probability = Field(
        0.75,
        description="agreement of the first pages that two queries find from which they are the same, with an index; "
        "the first page alone is 0.71",
    )
    results: int = Field(5, ge=1, le=100, description="how many pages of a query are looked at, with an index")
    index: str | None = Field(
        None,
        description="folder of documents that queries are tried on, in the checkout or absolute; none: words decide",
    )


class VerifierConfig(Section):
    """How an action is compared with the expert's."""

    kind: Literal["functional", "exact", "nemo-gym"] = Field(
        "functional", description="nemo-gym: rewards of NeMo Gym's own verifiers, for pools that train there"
    )
    text_threshold: Probability = Field(0.8, description="similarity from which free-text arguments are equal")
    message_threshold: Probability | None = Field(
        None,
        description="similarity from which messages are equal, where no domain judges them; none: any message will do",
    )
    call_credit: CallCredit = Field(
        CallCredit.FRACTIONAL,
        description="of several calls, m of e expected and a actual ones matched: strict 0, fractional m / max(e, a), "
        "f1 2 m / (e + a); earned with reward.partial",
    )
    comparators: dict[str, dict[ArgumentPath, Comparator]] = Field(
        {},
        description="by tool (* is any) and argument (a.b is inside of a, a[].b inside of a's items) how values are "
        "compared, whatever the schema says: exact, identifier, caseless, words, text, date, date-time, time, "
        "unordered, ignored",
    )
    terminal: TerminalConfig = TerminalConfig()
    software: SoftwareConfig = SoftwareConfig()
    search: SearchConfig = SearchConfig()
    reward: RewardConfig = RewardConfig()
    judge: JudgeConfig | None = Field(
        None, description="asked where an action is refused for its wording alone (kind functional)"
    )
    service: ServiceConfig | None = Field(
        None, description="where verdicts come from; none: from this process. The verdicts are the same"
    )
    nemo_gym: dict[str, bool | float | str] = Field(
        {}, description="settings of kind nemo-gym, under NeMo Gym's own names, such as word_count_similarity_threshold"
    )

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        read_settings(self.nemo_gym)
        return self
