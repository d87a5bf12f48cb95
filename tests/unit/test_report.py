"""The HTML report: self-contained, escaped, the same bytes for the same reports."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pivotrl_core.evaluation.verdict import Standing
from pivotrl_core.files import read_json, write_json
from tasks.report import write_report
from tasks.report.definitions import definitions_markdown
from tasks.report.summary import headline
from tests.report_files import HOSTILE, write_reports

VOID = {"meta", "img", "br", "line", "circle"}


class Elements(HTMLParser):
    """Collects elements and checks that every one that opens is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = write_reports(tmp_path_factory.mktemp("run"))
    provenance = {"run_id": "run-1", "commit": "abc123", "dirty": True, "versions": {"torch": "2.0"}}
    return write_report(root, root / "out", provenance, notice="too short to conclude from").read_text()


def parsed(html: str) -> Elements:
    elements = Elements()
    elements.feed(html)
    return elements


def test_text_of_a_model_never_becomes_markup(html: str):
    elements = parsed(html)
    assert "script" not in elements.names
    assert "img" not in elements.names
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in html
    assert HOSTILE not in html


def test_it_loads_nothing_from_anywhere(html: str):
    loading = {"src", "href", "xlink:href", "action", "data", "poster", "srcset"}
    targets = [value for _, name, value in parsed(html).attributes if name in loading]
    assert targets
    assert all(value.startswith("#") for value in targets), targets
    assert "default-src 'none'" in html
    assert not re.search(r"@import|url\((?!#)", html)


def test_item_sets_are_named_as_embedded_with_their_size(html: str):
    assert "ifbench-embedded, n = 32" in html
    assert "skipped: no sandbox" in html
    assert not re.search(r">\s*(ifbench|mmlu-pro|aime25)\s*<", html)


def test_verdict_notice_and_provenance_are_there(html: str):
    assert re.search(r'class="headline">(No winner|\w+ wins)', html)
    assert "too short to conclude from" in html
    assert "uncommitted changes" in html
    assert "abc123" in html
    assert "not compared by reproduce" in html


def test_every_link_inside_leads_somewhere_and_no_id_occurs_twice(html: str):
    attributes = parsed(html).attributes
    ids = [value for _, name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = {value[1:] for _, name, value in attributes if name.endswith("href")}
    assert links <= set(ids)


def test_the_same_reports_give_the_same_bytes(tmp_path: Path):
    root = write_reports(tmp_path / "run", ("base", "sft", "pivotrl", "lambda-04", "lambda-08"), (0, 1))
    first = write_report(root, tmp_path / "a").read_bytes()
    assert write_report(root, tmp_path / "b.html").read_bytes() == first
    names = {path.name for path in (tmp_path / "a/figures").iterdir()}
    assert names == {"in-domain-against-ood.png", "mean-reward.png", "training.png", "lambda.png"}


def test_a_run_that_stopped_early_has_a_report_too(tmp_path: Path):
    assert "No comparison yet" in write_report(tmp_path, tmp_path / "report.html").read_text()


def test_hostile_names_in_a_comparison_stay_text(tmp_path: Path):
    root = write_reports(tmp_path / "run")
    path = root / "reports/compare/report.json"
    report = read_json(path)
    write_json(path, {**report, "notes": [HOSTILE]})
    assert "script" not in parsed(write_report(root, tmp_path / "report.html").read_text()).names


def test_the_metrics_page_is_generated_from_the_definitions():
    page = Path(__file__).parents[2] / "docs/metrics.md"
    assert page.read_text(encoding="utf-8") == definitions_markdown()


@pytest.mark.parametrize(
    ("seeds", "reading"),
    [((0,), "beyond the choice of items (one training run each)"), ((0, 1), "more than chance")],
)
def test_one_training_run_is_not_called_more_than_chance(tmp_path: Path, seeds: tuple[int, ...], reading: str):
    root = write_reports(tmp_path / "run", seeds=seeds)
    html = write_report(root, tmp_path / "report.html").read_text()
    assert f"): {reading}." in html
    assert ("more than chance" in html) == (len(seeds) > 1)


def test_the_share_of_a_pool_is_of_what_was_profiled(tmp_path: Path):
    root = write_reports(tmp_path / "run")
    path = root / "data/pools/pivotrl/report.json"
    write_json(path, {**read_json(path), "candidates": 1303, "profiled": 300, "kept": 75})
    html = write_report(root, tmp_path / "report.html").read_text()
    assert "<td>1,303</td><td>300</td><td>75</td><td>25%</td>" in html  # 75 / 300


def test_a_benchmark_that_one_arm_skipped_says_so_in_its_cell(tmp_path: Path):
    root = write_reports(tmp_path / "run")
    path = root / "reports/compare/report.json"
    report = read_json(path)
    skipped = {"mean": None, "low": None, "high": None, "n": 0, "interval": None, "skipped": "no sandbox: bwrap (old)"}
    report["rows"][1]["cells"]["eval/ifbench-embedded/score"] = skipped
    write_json(path, report)
    html = write_report(root, tmp_path / "report.html").read_text()
    row = html.partition('<th scope="row">ifbench-embedded, n = 32</th>')[2].partition("</tr>")[0]
    assert row.count('<td><span class="skipped">skipped: no sandbox</span></td>') == 1
    assert row.count('class="mean"') == 2


GREEDY, T1 = "eval/helpdesk/success_greedy", "eval/helpdesk/success_t1"


@pytest.mark.parametrize(
    ("places", "line"),
    [
        ([Standing(GREEDY, "sft", 0.6, ()), Standing(T1, "sft", 0.5, ())], "sft wins in domain"),
        ([Standing(GREEDY, "sft", 0.6, ())], "sft wins in domain"),
        (
            [Standing(GREEDY, "sft", 0.6, ("pivotrl",)), Standing(T1, "pivotrl", 0.5, ("sft",))],
            "No winner: sft is above base, but is not shown to differ from pivotrl",
        ),
        (
            [Standing(GREEDY, "sft", 0.6, ("pivotrl",)), Standing(T1, "pivotrl", 0.5, ())],
            "No winner: sft is above base, but is not shown to differ from pivotrl (greedy); t = 1: pivotrl wins",
        ),
        (
            [Standing(GREEDY, "sft", 0.6, ()), Standing(T1, "sft", 0.5, ("base",))],
            "sft wins in domain (greedy); t = 1: no winner",
        ),
        ([Standing(GREEDY, "sft", 0.6, (), one_run=True)], "sft wins in domain (one training run each)"),
        (
            [Standing(GREEDY, "sft", 0.6, (), one_run=True), Standing(T1, "sft", 0.5, ("base",), one_run=True)],
            "sft wins in domain (greedy); t = 1: no winner (one training run each)",
        ),
        (
            [Standing(GREEDY, "sft", 0.6, ("base",), one_run=True)],
            "No winner: sft stands highest, but is not shown to differ from base",
        ),
    ],
)
def test_the_headline_is_true_of_both_temperatures(places: list[Standing], line: str) -> None:
    assert headline(places) == line
