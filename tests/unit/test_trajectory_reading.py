"""Chat rows come out as trajectories; every defect is a drop with file, line, field and reason; the counts add up."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pivotrl_core.errors import DataError, TooManyDropsError
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.trajectories.drops import Drop, DropReason, DropReport
from pivotrl_core.trajectories.inspection import inspect_files
from pivotrl_core.trajectories.loading import iterate_trajectories, load_trajectories, trajectory_files
from pivotrl_core.trajectories.parsing import parse_action
from pivotrl_core.trajectories.splits import split_of
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.trajectories.turns import candidate_positions
from pivotrl_core.trajectories.validation import Limits
from pivotrl_core.types import Role, Split, ToolCall, Trajectory

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of real files is absent")

USER = {"role": "user", "content": "Where is my order?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id": "A1"}'}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "on its way"}
ANSWER = {"role": "assistant", "content": "It is on its way."}
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}


def calling(*calls: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def function(name: Any, arguments: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), "tools": [TOOL], **more}


GOOD = chat(USER, calling(CALL), RESULT, ANSWER)


def read(path: Path, *rows: Any, **limits: int) -> tuple[list[Trajectory], DropReport]:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = DropReport()
    kept = list(iterate_trajectories([path], report, Limits(**limits)))
    assert report.read == report.kept + len(report.drops) == len(kept) + sum(report.by_reason().values())
    return kept, report


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_a_chat_row_is_read_with_its_calls_results_and_tools(file: Path) -> None:
    [trajectory], report = read(file, GOOD)
    roles = [message.role for message in trajectory.messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert trajectory.messages[1].tool_calls == (ToolCall("find", '{"id": "A1"}', "c1"),)
    assert trajectory.messages[2].tool_call_id == "c1"
    assert [tool.name for tool in trajectory.tools] == ["find"]
    assert report.drops == []


def test_the_older_function_call_form_is_read(file: Path) -> None:
    row = {
        "messages": [
            USER,
            {"role": "assistant", "content": None, "function_call": {"name": "find", "arguments": "{}"}},
            {"role": "function", "name": "find", "content": "on its way"},
            ANSWER,
        ],
        "functions": [{"name": "find", "parameters": {}}],
    }
    [trajectory], _ = read(file, row)
    assert trajectory.messages[1].tool_calls == (ToolCall("find", "{}"),)
    assert trajectory.messages[2].role is Role.TOOL
    assert trajectory.tools[0].name == "find"


def test_content_parts_are_joined_and_objects_become_argument_text(file: Path) -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "Where is "}, {"type": "text", "text": "it?"}]}
    [trajectory], _ = read(file, chat(parts, calling(function("find", {"id": "É"}))))
    assert trajectory.messages[0].content == "Where is it?"
    assert trajectory.messages[1].tool_calls[0].arguments == '{"id": "É"}'


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "assistant", "content": "<think>hm</think>\n\nHere."},
        {"role": "assistant", "content": "hm</think>Here."},
        {"role": "assistant", "content": "Here.", "reasoning_content": "hm"},
    ],
)
def test_thinking_is_kept_apart_from_what_was_said(file: Path, turn: dict[str, Any]) -> None:
    [trajectory], _ = read(file, chat(USER, turn))
    assert (trajectory.messages[1].thinking, trajectory.messages[1].content) == ("hm", "Here.")


def test_thinking_that_never_ends_leaves_no_answer() -> None:
    assert split_thinking("<think>and then") == ("and then", "")


HUGE = {"id": "x" * 2000}
DEFECTS: list[tuple[Any, DropReason, str]] = [
    ('{"messages": [', DropReason.BROKEN_JSON, ""),
    ('{"messages": NaN}', DropReason.BROKEN_JSON, ""),
    ('{"messages": 1e999}', DropReason.BROKEN_JSON, ""),
    ("[1, 2]", DropReason.WRONG_TYPE, ""),
    ("[" * 5000, DropReason.TOO_DEEP, ""),
    ('{"messages": ' + "[" * 200 + "]" * 200 + "}", DropReason.TOO_DEEP, ""),
    ('{"messages": [{"role": "user", "content": "\\ud800"}]}', DropReason.LONE_SURROGATE, ""),
    ({"text": "hello"}, DropReason.MISSING_FIELD, "messages"),
    ({"messages": []}, DropReason.MISSING_FIELD, "messages"),
    ({"messages": "hello"}, DropReason.WRONG_TYPE, "messages"),
    (chat({"content": "hi"}), DropReason.MISSING_FIELD, "messages[0].role"),
    (chat({"role": "user"}), DropReason.MISSING_FIELD, "messages[0].content"),
    (chat({"role": "wizard", "content": "hi"}), DropReason.UNKNOWN_ROLE, "messages[0].role"),
    (chat({"role": "user", "content": 7}, ANSWER), DropReason.WRONG_TYPE, "messages[0].content"),
    (
        chat({"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}, ANSWER),
        DropReason.UNSUPPORTED_CONTENT,
        "messages[0].content[0].type",
    ),
    (
        chat(USER, calling(function("", "{}"))),
        DropReason.UNNAMED_TOOL_CALL,
        "messages[1].tool_calls[0].function.name",
    ),
    (
        chat(USER, calling({"function": {"arguments": "{}"}})),
        DropReason.UNNAMED_TOOL_CALL,
        "messages[1].tool_calls[0].function.name",
    ),
    (chat(USER, calling(function("fly", "{}"))), DropReason.UNKNOWN_TOOL, "messages[1].tool_calls[0].name"),
    (
        chat(USER, calling(function("find", "{"))),
        DropReason.ARGUMENTS_NOT_JSON,
        "messages[1].tool_calls[0].arguments",
    ),
    (
        chat(USER, calling(function("find", "[]"))),
        DropReason.ARGUMENTS_NOT_JSON,
        "messages[1].tool_calls[0].arguments",
    ),
    (
        chat(USER, calling(function("find", HUGE))),
        DropReason.OVERSIZED_ARGUMENT,
        "messages[1].tool_calls[0].arguments",
    ),
    (chat(USER, {"role": "assistant", "content": " \n"}), DropReason.EMPTY_ASSISTANT_TURN, "messages[1]"),
    (
        chat(USER, {"role": "assistant", "content": "<think>hm</think> "}),
        DropReason.EMPTY_ASSISTANT_TURN,
        "messages[1]",
    ),
    (chat(USER), DropReason.NO_ASSISTANT_TURN, "messages"),
    (chat(USER, RESULT, ANSWER), DropReason.ORPHAN_TOOL_RESULT, "messages[1]"),
    (
        chat(USER, calling(CALL), {**RESULT, "tool_call_id": "c9"}),
        DropReason.ORPHAN_TOOL_RESULT,
        "messages[2].tool_call_id",
    ),
    ({**GOOD, "tools": [{"function": {}}]}, DropReason.INVALID_TOOL, "tools[0].name"),
    ({**GOOD, "tools": [TOOL, TOOL]}, DropReason.INVALID_TOOL, "tools[1].name"),
    ({**GOOD, "tools": "[" * 5000}, DropReason.TOO_DEEP, "tools"),
    ({**GOOD, "tools": "[" * 80 + "]" * 80}, DropReason.TOO_DEEP, "tools"),
    ({**GOOD, "tools": '[{"name": "find", "parameters": {"x": NaN}}]'}, DropReason.INVALID_TOOL, "tools"),
    ({**GOOD, "tools": '[{"name": "find", "description": "\\ud800"}]'}, DropReason.LONE_SURROGATE, "tools"),
    (GOOD, DropReason.DUPLICATE_CONTENT, ""),
    (chat(USER, ANSWER, id="first"), DropReason.DUPLICATE_ID, "id"),
]


@pytest.mark.parametrize(("row", "reason", "field"), DEFECTS)
def test_a_defect_is_a_drop_with_its_place_and_the_rows_around_it_are_kept(
    file: Path, row: Any, reason: DropReason, field: str
) -> None:
    after = chat(USER, {"role": "assistant", "content": "Another one."})
    kept, report = read(file, {**GOOD, "id": "first"}, row, after, max_argument_bytes=1000)
    assert len(kept) == 2
    [drop] = report.drops
    assert (drop.file, drop.line, drop.reason, drop.field) == (file.as_posix(), 2, reason, field)
    assert drop.remedy


UNREADABLE = {
    '{"id": NaN}': DropReason.ARGUMENTS_NOT_JSON,
    '{"id": 1e999}': DropReason.ARGUMENTS_NOT_JSON,
    '{"id": 1, "id": 2}': DropReason.ARGUMENTS_NOT_JSON,
    '{"id": ' + "[" * 80 + "]" * 80 + "}": DropReason.TOO_DEEP,
}


@pytest.mark.parametrize(("arguments", "reason"), UNREADABLE.items())
def test_an_expert_call_that_no_sample_could_match_is_a_drop(file: Path, arguments: str, reason: DropReason) -> None:
    kept, report = read(file, chat(USER, calling(function("find", arguments))), GOOD)
    assert [(drop.reason, drop.field) for drop in report.drops] == [(reason, "messages[1].tool_calls[0].arguments")]
    assert parse_action(f"@find {arguments}", "compact", kept[0].tools).error


def test_a_rows_own_keys_mean_nothing_to_the_reader(file: Path) -> None:
    talk = [USER, ANSWER, USER, {"role": "assistant", "content": "Bye."}]
    own = {"row_id": 1, "turn_index": 7, "only_last_turn": True, "nemo_row": {}}
    other = chat(USER, {"role": "assistant", "content": "Hm."}, **own)
    rows = [chat(*talk, **own), other, chat(*talk[2:], row_id=[1])]
    kept, _ = read(file, *rows)
    assert [len(candidate_positions(one)) for one in kept] == [2, 1, 1]
    assert [one.turn_index for one in iterate_candidates(kept[0], Split.TRAIN)] == [0, 1]
    assert all(one.metadata == {} for one in kept)


def test_an_empty_group_names_none(file: Path) -> None:
    kept, _ = read(file, {**GOOD, "group": "", "task_id": "t1"})
    assert kept[0].group == "t1"


def test_a_10_mb_argument_is_dropped_under_the_default_limit(file: Path) -> None:
    kept, report = read(file, chat(USER, calling(function("find", {"id": "x" * 10_000_000}))), GOOD)
    assert (len(kept), report.by_reason()) == (1, {"oversized_argument": 1})
    assert "the limit is 1000000" in report.drops[0].detail


def test_a_row_of_no_known_format_says_what_its_keys_are(file: Path) -> None:
    _, report = read(file, {"dialogue": []})
    assert report.drops[0].reason is DropReason.UNKNOWN_FORMAT
    assert "dialogue" in report.drops[0].detail


def test_bytes_that_are_not_utf8_and_lines_over_the_limit_are_drops(file: Path) -> None:
    file.write_bytes(b'{"a": "\xff"}\n' + b"x" * 5000 + b"\n" + json.dumps(GOOD).encode())
    report = DropReport()
    assert len(list(iterate_trajectories([file], report, Limits(max_line_bytes=2000)))) == 1
    assert [(drop.line, drop.reason) for drop in report.drops] == [
        (1, DropReason.NOT_UTF8),
        (2, DropReason.OVERSIZED_LINE),
    ]


def test_a_json_list_is_read_and_a_byte_order_mark_is_no_defect(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text("\ufeff" + json.dumps([GOOD, {"messages": []}], indent=1), encoding="utf-8")
    loaded = load_trajectories([file])
    assert (len(loaded.trajectories), loaded.report.drops[0].line) == (1, 2)


def test_a_broken_document_is_one_drop_at_its_line_and_column_and_lines_under_its_name_are_rows(
    tmp_path: Path,
) -> None:
    file, report = tmp_path / "rows.json", DropReport()
    lines = json.dumps([GOOD, GOOD], indent=2).splitlines()
    file.write_text("\n".join([*lines[:3], lines[3] + " oops", *lines[4:]]))
    assert list(iterate_trajectories([file], report)) == []
    [drop] = report.drops
    assert (report.read, drop.file, drop.line, drop.reason) == (1, file.as_posix(), 4, DropReason.BROKEN_JSON)
    assert drop.detail.startswith(f"column {len(lines[3]) + 2}: ")
    file.write_text(json.dumps(GOOD) + "\n{broken\n" + json.dumps(chat(USER, ANSWER)) + "\n")
    report = DropReport()
    assert len(list(iterate_trajectories([file], report))) == 2
    assert [(one.line, one.reason) for one in report.drops] == [(2, DropReason.BROKEN_JSON)]


@pytest.mark.parametrize("name", ["A.JSONL", "a.ndjson", "A.Json.GZ", "a.NDJSON.zst", "x.TRAJ"])
def test_a_name_means_the_same_in_upper_case(tmp_path: Path, name: str) -> None:
    body = json.dumps(GOOD).encode()
    (tmp_path / name).write_bytes(packed(name.lower(), body))
    (tmp_path / "notes.txt").write_text("no rows")
    assert [file.name for file in trajectory_files(tmp_path)] == [name]
    assert len(load_trajectories(trajectory_files(tmp_path)).trajectories) == 1


PACKED_NAMES = ["rows.jsonl.gz", "rows.json.gz", "rows.jsonl.zst", "rows.json.zst"]


def packed(name: str, data: bytes) -> bytes:
    if name.endswith(".zst"):
        return bytes(pa.compress(data, codec="zstd", asbytes=True))
    return gzip.compress(data) if name.endswith(".gz") else data


@pytest.mark.parametrize("name", PACKED_NAMES)
def test_a_packed_file_is_read_as_the_file_in_it_with_drops_in_their_places(tmp_path: Path, name: str) -> None:
    lines = [json.dumps(GOOD), "{", "x" * 5000, json.dumps(chat(USER, ANSWER))]
    (tmp_path / name).write_bytes(packed(name, "\n".join(lines).encode()))
    assert trajectory_files(tmp_path) == [tmp_path / name]
    report = DropReport()
    kept = list(iterate_trajectories(trajectory_files(tmp_path), report, Limits(max_line_bytes=2000)))
    assert [trajectory.source.rpartition("/")[2] for trajectory in kept] == [f"{name}:1", f"{name}:4"]
    assert [(drop.line, drop.reason) for drop in report.drops] == [
        (2, DropReason.BROKEN_JSON),
        (3, DropReason.OVERSIZED_LINE),
    ]
    assert inspect_files([tmp_path / name]).drops.read == 4


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_packed_json_list_is_read_up_to_the_length_of_a_line(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.json.{kind}"
    file.write_bytes(packed(file.name, json.dumps([GOOD, {"messages": []}]).encode()))
    loaded = load_trajectories([file])
    assert (len(loaded.trajectories), loaded.report.drops[0].line) == (1, 2)
    with pytest.raises(
        DataError, match=rf"rows\.json\.{kind}: a JSON list that unpacks to over 100 bytes.*\.jsonl\.gz"
    ):
        load_trajectories([file], Limits(max_line_bytes=100))


@pytest.mark.parametrize("name", PACKED_NAMES)
def test_a_packed_file_that_unpacks_to_very_much_is_never_held_whole(tmp_path: Path, name: str) -> None:
    line = b"x" * 64_000_000  # 62 kB as a gzip
    (tmp_path / name).write_bytes(packed(name, line + b"\n" + json.dumps(GOOD).encode()))
    tracemalloc.start()
    loaded = load_trajectories([tmp_path / name], Limits(max_line_bytes=1_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(loaded.trajectories), loaded.report.by_reason()) == (1, {"oversized_line": 1})
    assert peak < 8_000_000


PLAIN = b"".join(json.dumps(chat(USER, ANSWER, n=i)).encode() + b"\n" for i in range(200))
PACKED = gzip.compress(PLAIN)


@pytest.mark.parametrize("name", ["rows.jsonl.zst", "rows.json.zst"])
@pytest.mark.parametrize("cut", ["without its end", "half of it", "another file", "with an appendix"])
def test_a_broken_zstandard_file_is_an_error_that_names_the_file(tmp_path: Path, name: str, cut: str) -> None:
    whole = packed(name, PLAIN)
    bodies = {"without its end": whole[:-5], "half of it": whole[: len(whole) // 2], "another file": b"no zstd"}
    (tmp_path / name).write_bytes(bodies.get(cut, whole + b"more"))
    with pytest.raises(DataError, match=rf"{name}: a broken or truncated Zstandard file"):
        load_trajectories([tmp_path / name])


def test_frames_behind_each_other_are_one_zstandard_file(tmp_path: Path) -> None:
    frames = [packed("a.zst", json.dumps(row).encode() + b"\n") for row in (GOOD, chat(USER, ANSWER))]
    (tmp_path / "rows.jsonl.zst").write_bytes(b"".join(frames))
    assert len(load_trajectories([tmp_path / "rows.jsonl.zst"]).trajectories) == 2


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        file = tmp_path / f"{rows}.jsonl"
        with file.open("w") as out:
            for index in range(rows):
                said = {"role": "assistant", "content": f"{index} " + "x" * 20_000}
                out.write(json.dumps({"messages": [USER, said]}) + "\n")
        tracemalloc.start()
        kept = sum(1 for _ in iterate_trajectories([file], DropReport()))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert kept == rows
        return found

    few = peak(20)
    assert peak(400) < few + 380 * 400  # 400 bytes a row of 20 kB: its id and its place


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.json.gz"])
@pytest.mark.parametrize(
    "body",
    [
        PACKED[:-20],
        PACKED[: len(PACKED) // 2],
        b"no gzip at all",
        PACKED + b"more",
        b"\0".join([PACKED[:60], PACKED[61:]]),
    ],
    ids=["without its end", "half of it", "another file", "with an appendix", "with a wrong byte"],
)
def test_a_broken_gzip_is_an_error_that_names_the_file(tmp_path: Path, name: str, body: bytes) -> None:
    (tmp_path / name).write_bytes(body)
    with pytest.raises(DataError, match=rf"{name}: a broken or truncated gzip"):
        load_trajectories([tmp_path / name])


def test_equal_ids_in_two_files_are_two_rows(tmp_path: Path) -> None:
    for name, text in (("a", "One."), ("b", "Two.")):
        row = chat(USER, {"role": "assistant", "content": text}, id="0")
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    assert len(load_trajectories(trajectory_files(tmp_path)).trajectories) == 2


def test_too_many_drops_stop_with_the_counts_and_no_rows_at_all_is_an_error(file: Path) -> None:
    file.write_text("{\n" + json.dumps(GOOD))
    assert load_trajectories([file], max_drop_share=0.5).report.share == 0.5
    with pytest.raises(TooManyDropsError, match=r"1 of 2 rows are unusable.*broken_json.*`pivotrl inspect FILE`"):
        load_trajectories([file], max_drop_share=0.4)
    file.write_text("")
    with pytest.raises(DataError, match="no trajectory row"):
        load_trajectories([file])


def test_exports_that_grow_bring_every_earlier_row_again_and_are_not_refused_for_it(tmp_path: Path) -> None:
    rows = [chat(USER, {"role": "assistant", "content": f"Answer {day}."}) for day in range(5)]
    for night in range(5):  # 1 + 2 + 3 + 4 + 5 rows, of which 5 differ
        text = "\n".join(json.dumps(row) for row in rows[: night + 1])
        (tmp_path / f"night-{night}.jsonl").write_text(text)
    report = load_trajectories(trajectory_files(tmp_path), max_drop_share=0.0).report
    assert (report.read, report.kept, report.by_reason(), report.share) == (15, 5, {"duplicate_content": 10}, 0.0)
    (tmp_path / "night-5.jsonl").write_text("{")
    with pytest.raises(
        TooManyDropsError, match=r"1 of 16 rows are unusable \(6.2%\)(.|\n)*night-5.jsonl:1: broken_json"
    ):
        load_trajectories(trajectory_files(tmp_path), max_drop_share=0.06)


def test_a_drop_reads_as_a_sentence() -> None:
    drop = Drop("rows.jsonl", 3, DropReason.UNKNOWN_ROLE, "messages[0].role", "'wizard'")
    assert str(drop).startswith("rows.jsonl:3 messages[0].role: unknown_role ('wizard'); use one of")


def test_the_split_of_a_group_never_changes_and_follows_the_shares() -> None:
    splits = [split_of(f"group {i}", 0.1, 0.2) for i in range(4000)]
    assert splits == [split_of(f"group {i}", 0.1, 0.2) for i in range(4000)]
    # Standard deviation of a share of 0.2 over 4000 groups: sqrt(.2 * .8 / 4000) = 0.0063; four of them are 0.025.
    assert splits.count(Split.TEST) / 4000 == pytest.approx(0.2, abs=0.025)
    assert splits.count(Split.VALIDATION) / 4000 == pytest.approx(0.1, abs=0.025)
    assert {split_of(f"group {i}", 0.0, 0.0) for i in range(50)} == {Split.TRAIN}


def test_inspection_counts_candidates_by_kind_and_lengths(file: Path) -> None:
    file.write_text(json.dumps(GOOD) + "\n{\n")
    report = inspect_files([file], lambda trajectory: [len(trajectory.messages), 10])
    assert report.candidates_by_kind == {"tool_call": 1, "message": 1}
    assert report.token_quantiles["1"] == 10.0
    out = report.to_json()
    assert (out["read"], out["kept"], out["dropped"], out["candidates"]) == (2, 1, 1, 2)


@needs_shared
def test_200_real_tau_bench_trajectories_are_read_whole() -> None:
    report = inspect_files([SHARED / "trajectories" / "tau_bench" / "gpt-4o-airline.json"])
    assert (report.drops.read, report.drops.kept, report.groups) == (200, 200, 50)
    assert report.candidates_by_kind == {"message": 1290, "tool_call": 1164}
