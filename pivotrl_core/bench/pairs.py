"""How often verdicts are right: labelled pairs of an expert's action and another one, graded by three verifiers.

A set is a folder with `pairs.jsonl` (or `pairs.jsonl.gz`) and the workspaces that its rows name. Each line is a row as
`pivotrl verify` reads it, with what is known of it beside (`LABELS`). Labels never come from a verifier of ours, and no
verifier sees them. Shares have exact intervals (Clopper and Pearson, Biometrika 26, 1934).
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pivotrl_core.bench.measuring import Say
from pivotrl_core.environments.protocol import ExpertDomain
from pivotrl_core.environments.registry import get_expert_domain
from pivotrl_core.errors import DataError
from pivotrl_core.types import Json, content_id
from pivotrl_core.verifiers.exact import ExactGrader
from pivotrl_core.verifiers.graded import GradedVerifier
from pivotrl_core.verifiers.registry import GRADERS
from pivotrl_core.verifiers.rows import read_row, verify_row
from pivotrl_core.verifiers.verdict_cache import VerdictCache

BENCH = "pairs"
LABELS = ("pair", "label", "origin", "kind", "established", "part", "environment")
"""Fields of a row that are about the pair: an id, what is right, where it is from, what was changed, how that was found
out, whether it is kept aside, and the embedded domain whose rules are the verifier's."""
SAMPLED = "sampled.json"
"""Beside the pairs, where actions were sampled: how many were `valid`, and how many of those `identical` to the
expert's. Pairs themselves hold none that is."""
ALL = "all"
LEVEL = 0.95


class Part(StrEnum):
    OPEN = "open"
    KEPT = "kept"  # aside until the end, and measured once


class Rule(StrEnum):
    EXACT = "exact"
    NEMO_GYM = "nemo-gym"
    FUNCTIONAL = "functional"


@dataclass(frozen=True, slots=True)
class Pair:
    """A labelled row: `row` is what verifiers see."""

    row: Mapping[str, Json]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Share:
    """A count of a total, with the interval that covers the true share in 95 of 100 sets at least."""

    count: int
    total: int

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds in [0, 1]."""
        from scipy.special import betaincinv  # takes a third of a second, and is wanted at the end only

        rest, tail = self.total - self.count, (1 - LEVEL) / 2
        low = float(betaincinv(self.count, rest + 1, tail)) if self.count else 0.0
        return low, float(betaincinv(self.count + 1, rest, 1 - tail)) if rest else 1.0

    def json(self) -> dict[str, Json]:
        """Count, total, share and interval; without a total the first two only."""
        told: dict[str, Json] = {"count": self.count, "of": self.total}
        if self.total:
            told |= {"share": round(self.count / self.total, 4), "interval": [round(one, 4) for one in self.interval]}
        return told

    def text(self) -> str:
        """As a cell of a table."""
        if not self.total:
            return f"{'-':>32}"
        low, high = self.interval
        counts = f"{self.count}/{self.total}"
        return f"{counts:>10} {100 * self.count / self.total:5.1f} % [{100 * low:4.1f}, {100 * high:5.1f}]"


@dataclass(frozen=True, slots=True)
class AcceptRates:
    """What one verifier makes of the pairs of one origin.

    Attributes:
        recognised: of valid alternatives; accepted: of hard negatives.
        errors: by kind of pair and label, how many verdicts are wrong of how many.
        punished: of valid actions as a policy samples them, how many exact match refuses.
    """

    domain: str
    part: str
    origin: str
    rule: Rule
    recognised: Share
    accepted: Share
    errors: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    punished: Share | None = None

    def line(self) -> str:
        """One line of JSON."""
        told = {"bench": BENCH, "domain": self.domain, "part": self.part, "origin": self.origin, "verifier": self.rule}
        shares = {"valid_recognised": self.recognised.json(), "wrong_accepted": self.accepted.json()}
        errors = {"errors": {kind: list(counts) for kind, counts in self.errors.items()}} if self.errors else {}
        punished = {"valid_sampled_punished": self.punished.json()} if self.punished else {}
        return json.dumps({**told, **shares, **errors, **punished})

    def text(self) -> str:
        """The same for people."""
        about = f"{self.domain} {self.part} {self.origin} {self.rule}"
        lines = [f"{about:42} valid {self.recognised.text()}   wrong {self.accepted.text()}"]
        if self.punished:
            lines.append(f"  of valid actions as sampled, exact match refuses {self.punished.text().strip()}")
        lines += [f"  errs on {kind}: {wrong} of {total}" for kind, (wrong, total) in self.errors.items()]
        return "\n".join(lines)


def state_id(row: Mapping[str, Json]) -> str:
    """Identifies the state of a row: what the policy saw, and the workspace where there is one."""
    return content_id([row["responses_create_params"], row.get("workspace")])


def read_pairs(folder: Path) -> list[Pair]:
    """The pairs of a set, in order.

    Raises:
        DataError: there are none, or a line holds no JSON object.
    """
    plain = folder / "pairs.jsonl"
    packed = folder / "pairs.jsonl.gz"
    if not (plain.is_file() or packed.is_file()):
        raise DataError(f"{folder}: no labelled pairs here (pairs.jsonl or pairs.jsonl.gz); name the folder of a set")
    text = plain.read_text("utf-8") if plain.is_file() else gzip.decompress(packed.read_bytes()).decode("utf-8")
    return [_read_pair(line, f"{folder}, line {number}") for number, line in enumerate(text.split("\n"), 1) if line]


def _read_pair(line: str, where: str) -> Pair:
    try:
        values = json.loads(line)
        labels = {name: values[name] for name in LABELS if name in values}
        return Pair({name: value for name, value in values.items() if name not in LABELS}, labels)
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{where}: not a labelled pair ({error})") from None


def accepts(pair: Pair, domain: str, rule: Rule, folder: Path, paid: VerdictCache | None = None) -> bool:
    """Whether a verifier takes the response of a pair for the expert's action. What has no verdict is not accepted.

    With `paid`, the expert's side is executed once for all pairs of a state.

    Raises:
        DataError: the row cannot be read, so that no verifier could judge it.
    """
    if rule is Rule.EXACT:
        return _EXACT.verify(*read_row(pair.row, domain)).reward == 1.0
    environment = pair.labels.get("environment")
    rules = _rules(environment) if environment else None
    return bool(verify_row(pair.row, domain, rule is Rule.NEMO_GYM, folder, rules, paid)["reward"] == 1.0)


_EXACT = GradedVerifier(ExactGrader())


@cache
def _rules(environment: str) -> ExpertDomain:
    return get_expert_domain(environment)


def rules_of(domain: str) -> tuple[Rule, ...]:
    """The verifiers that there are for a domain: NeMo Gym has no pivot server for code."""
    return tuple(rule for rule in Rule if domain != "code" or rule is not Rule.NEMO_GYM)


def accept_rates(folder: Path, domain: str, part: str, say: Say) -> Iterator[AcceptRates]:
    """All of one set.

    Args:
        folder: of the set.
        domain: a key of `GRADERS`.
        part: `open`, `kept`, or `all`.
        say: hears of the progress.
    """
    pairs = [pair for pair in read_pairs(folder) if part in (ALL, pair.labels["part"])]
    say(f"{domain}: {len(pairs)} pairs of {len({state_id(pair.row) for pair in pairs})} states ({part})")
    origins = sorted({pair.labels["origin"] for pair in pairs})
    for rule in rules_of(domain):
        with TemporaryDirectory(prefix="pivotrl-pairs-") as scratch:
            paid = VerdictCache(Path(scratch) / "verdicts.sqlite")
            verdicts = [accepts(pair, domain, rule, folder, paid) for pair in pairs]
        for origin in (ALL, *origins):
            judged = [
                (pair, verdict) for pair, verdict in zip(pairs, verdicts, strict=True)
                if origin in (ALL, pair.labels["origin"])
            ]  # fmt: skip
            yield _rates(judged, (domain, part, origin, rule), _punished(folder))


def _rates(
    judged: Sequence[tuple[Pair, bool]], about: tuple[str, str, str, Rule], punished: Share | None
) -> AcceptRates:
    counts: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for pair, taken in judged:
        label, kind = pair.labels["label"], f"{pair.labels['label']} {pair.labels['kind']}"
        counts[label] += 1
        counts[f"{label} accepted"] += taken
        total[kind] += 1
        wrong[kind] += taken != (label == "valid")
    recognised, accepted = (Share(counts[f"{label} accepted"], counts[label]) for label in ("valid", "wrong"))
    _, _, origin, rule = about
    whole = origin == ALL
    errors = {kind: (wrong[kind], total[kind]) for kind in sorted(total) if wrong[kind]}
    return AcceptRates(
        *about, recognised, accepted, errors if whole and rule is Rule.FUNCTIONAL else {},
        punished if whole and rule is Rule.EXACT else None,
    )  # fmt: skip


def _punished(folder: Path) -> Share | None:
    path = folder / SAMPLED
    if not path.is_file():
        return None
    counts = json.loads(path.read_text("utf-8"))
    return Share(counts["valid"] - counts["identical"], counts["valid"])


def labelled_sets(sets: Path, domain: str = "") -> dict[str, Path]:
    """The folders of labelled pairs below `sets`, by domain; of one domain where it is named.

    Raises:
        DataError: there is none.
    """
    names = [domain] if domain else list(GRADERS)
    found = {name: sets / name for name in names if (sets / name).is_dir()}
    if not found:
        raise DataError(f"{sets}: no folder here is named {' or '.join(names)}")
    return found


def all_rates(sets: Path, domain: str, part: str, say: Say) -> Iterator[AcceptRates]:
    """Accept rates of every set below a folder, or of one domain's. Arguments as of the functions above."""
    for name, folder in labelled_sets(sets, domain).items():
        yield from accept_rates(folder, name, part, say)
