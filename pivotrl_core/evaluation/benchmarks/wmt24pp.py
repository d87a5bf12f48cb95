"""WMT24++ (embedded): translation of short English sentences into German, Spanish and French.

Data set: own sentences and own translations, `data/wmt24pp.jsonl`.
Licence: Apache-2.0, as this project; no text of the official set is used.
Items: 36: twelve sentences in parallel into three languages. At most 16 new tokens.
Prompt: system message with the request; two translated examples as turns; the sentence.
Extraction: the first line that is not blank, without the language's name before it and quotation marks around it.
Metric: chrF (sacrebleu, character 6-grams, beta 2) divided by 100. An item's score is its sentence chrF and the
    benchmark's is their mean.
Floor: the chrF of the untranslated source, 0.14; a fluent sentence in the wrong language stays near it.
Source: https://huggingface.co/datasets/google/wmt24pp (form); arXiv 2502.12404; https://github.com/mjpost/sacrebleu.

Embedded: differs from the official benchmark in
1. items: phrase-book sentences instead of news, speech, literary and social text; 3 pairs instead of 55;
2. the mean of sentence scores instead of the corpus chrF of each pair, because differences between arms are paired by
   item;
3. no learned metric (xCOMET, MetricX).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pivotrl_core.evaluation.extraction import first_line
from pivotrl_core.evaluation.protocol import Item, ItemScore
from pivotrl_core.files import read_jsonl
from pivotrl_core.types import Message, Role

_DATA = Path(__file__).with_name("data") / "wmt24pp.jsonl"
_LANGUAGES: Mapping[str, str] = {"de": "German", "es": "Spanish", "fr": "French"}
_SHOTS: Mapping[str, tuple[str, str]] = {
    "de": ("Die Katze ist klein.", "Ich trinke Milch."),
    "es": ("El gato es pequeño.", "Bebo leche."),
    "fr": ("Le chat est petit.", "Je bois du lait."),
}
_SHOT_SOURCES = ("The cat is small.", "I drink milk.")


class WMT24PP:
    """See the module's data sheet."""

    name = "wmt24pp-embedded"
    metric = "chrF / 100"
    max_tokens = 16
    needs_sandbox = False

    def items(self) -> Sequence[Item]:
        return [Item(row["id"], _prompt(row), row) for row in read_jsonl(_DATA)]

    def reference(self, item: Item) -> str:
        """An answer that scores 1."""
        return str(item.content["reference"])

    def score(self, item: Item, answer: str) -> ItemScore:
        from sacrebleu.metrics import CHRF

        translation = _translation(item, answer)
        if not translation:
            return ItemScore(0.0, False)
        chrf = CHRF().sentence_score(translation, [item.content["reference"]]).score / 100
        return ItemScore(min(1.0, max(0.0, float(chrf))), True, translation)


def _translation(item: Item, answer: str) -> str:
    line = first_line(answer) or ""
    line = line.removeprefix(f"{_LANGUAGES[item.content['target']]}:").strip()
    return line.strip('"“”„«»').strip()


def _prompt(row: Mapping[str, str]) -> tuple[Message, ...]:
    target = row["target"]
    messages = [Message(Role.SYSTEM, f"Translate English into {_LANGUAGES[target]}.")]
    for source, translation in zip(_SHOT_SOURCES, _SHOTS[target], strict=True):
        messages += [Message(Role.USER, source), Message(Role.ASSISTANT, translation)]
    return (*messages, Message(Role.USER, row["source"]))
