r"""MMLU-ProX (embedded): the same multiple-choice questions in several languages, ten options each.

Data set: own items, written in each language by hand, `data/mmlu_prox.jsonl`.
Licence: Apache-2.0, as this project; no text of the official set is used.
Items: 32: four questions in parallel in English, German, Spanish, French, Italian, Portuguese, Chinese and Japanese.
    At most 12 new tokens.
Prompt: in the question's language: one solved example as turns, then the question with its options.
Extraction: the language's 'the answer is (X)', else the last lone letter A to J.
Metric: accuracy over all items (each language has the same number, so this is the mean over languages too).
Floor: 0.1 (one of ten at random).
Source: https://mmluprox.github.io (languages and form); arXiv 2503.10497.

Embedded: differs from the official benchmark in
1. items: four trivial questions instead of 11,829 per language; 8 languages instead of 29;
2. the same question in eight languages is not eight independent items: intervals over items are too narrow by that;
3. one solved example instead of five, and an answer without a letter scores 0 and counts as not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.evaluation.extraction import choice_letter
from pivotrl_core.evaluation.protocol import Item, ItemScore
from pivotrl_core.files import read_jsonl
from pivotrl_core.types import Json, Message, Role

_DATA = Path(__file__).with_name("data") / "mmlu_prox.jsonl"
_LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True, slots=True)
class _Wording:
    """Fixed texts of one language. `answer` is what stands before the letter, in prompt and pattern alike."""

    system: str
    answer: str
    example: str

    def pattern(self) -> re.Pattern[str]:
        words = f"(?i:{re.escape(self.answer)})"
        # A small letter alone may be a word of the language: 'the answer is a duck'.
        return re.compile(words + r"\s*(?:[:：]\s*)?[(（]?((?<=[(（])[a-j]|[A-J])(?![A-Za-z])")


_WORDINGS: Mapping[str, _Wording] = {
    "en": _Wording("Choose the right option.", "The answer is", "What is 1 + 1?"),
    "de": _Wording("Wähle die richtige Option.", "Die Antwort ist", "Was ist 1 + 1?"),
    "es": _Wording("Elige la opción correcta.", "La respuesta es", "¿Cuánto es 1 + 1?"),
    "fr": _Wording("Choisis la bonne option.", "La réponse est", "Combien font 1 + 1 ?"),
    "it": _Wording("Scegli l'opzione giusta.", "La risposta è", "Quanto fa 1 + 1?"),
    "pt": _Wording("Escolha a opção certa.", "A resposta é", "Quanto é 1 + 1?"),
    "zh": _Wording("请选择正确的选项。", "答案是", "1 + 1 等于多少？"),
    "ja": _Wording("正しい選択肢を選んでください。", "答えは", "1 + 1 はいくつですか？"),
}
_EXAMPLE_OPTIONS = ("4", "6", "2", "9", "1", "3", "8", "5", "7", "10")


class MMLUProX:
    """See the module's data sheet."""

    name = "mmlu-prox-embedded"
    metric = "accuracy"
    max_tokens = 12
    needs_sandbox = False

    def items(self) -> Sequence[Item]:
        return [Item(row["id"], _prompt(row), row) for row in read_jsonl(_DATA)]

    def reference(self, item: Item) -> str:
        """An answer that scores 1."""
        wording = _WORDINGS[item.content["language"]]
        return f"{wording.answer} ({item.content['answer']})"

    def score(self, item: Item, answer: str) -> ItemScore:
        letter = choice_letter(answer, (_WORDINGS[item.content["language"]].pattern(),))
        letter = letter.upper() if letter else None
        return ItemScore(float(letter == item.content["answer"]), letter is not None, letter or "")


def _prompt(row: dict[str, Json]) -> tuple[Message, ...]:
    wording = _WORDINGS[row["language"]]
    return (
        Message(Role.SYSTEM, wording.system),
        Message(Role.USER, _ask(wording.example, _EXAMPLE_OPTIONS)),
        Message(Role.ASSISTANT, f"{wording.answer} (C)"),
        Message(Role.USER, _ask(row["question"], row["options"])),
    )


def _ask(question: str, options: Sequence[str]) -> str:
    return f"{question}\n" + " ".join(f"({letter}) {option}" for letter, option in zip(_LETTERS, options, strict=True))
