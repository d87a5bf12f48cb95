"""Workspaces hold what they say and nothing that leads out of them, whether they come as a folder or as an archive."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from pivotrl_core.errors import DataError
from pivotrl_core.verifiers import cgroups, sandbox, workspace
from pivotrl_core.verifiers.workspace import Node, NodeKind, load_workspace, make_workspace, read_tree


def member(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", content: bytes = b""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(content)
    return info, content


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as file:  # type: ignore[call-overload]
        for info, content in members:
            file.addfile(info, io.BytesIO(content))
    return path


def test_a_folder_a_tar_and_a_zip_of_the_same_files_are_the_same_workspace(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "sub/run.sh").write_text("echo")
    (folder / "sub/run.sh").chmod(0o755)
    (folder / "sub/link").symlink_to("../a.txt")
    for suffix, mode in (("tar", "w"), ("tar.gz", "w:gz"), ("tar.xz", "w:xz")):
        with tarfile.open(tmp_path / f"w.{suffix}", mode) as file:
            file.add(folder, ".")
    with zipfile.ZipFile(tmp_path / "w.zip", "w") as file_zip:
        for name in ("a.txt", "sub/run.sh"):
            file_zip.write(folder / name, name)
        link = zipfile.ZipInfo("sub/link")
        link.external_attr = 0o120777 << 16
        file_zip.writestr(link, "../a.txt")
    first = load_workspace(folder)
    assert first.tree.nodes == {
        "a.txt": Node(NodeKind.FILE, b"a"),
        "sub": Node(NodeKind.FOLDER),
        "sub/run.sh": Node(NodeKind.FILE, b"echo", executable=True),
        "sub/link": Node(NodeKind.LINK, b"../a.txt"),
    }
    for suffix in ("tar", "tar.gz", "tar.xz", "zip"):
        assert load_workspace(tmp_path / f"w.{suffix}").digest == first.digest, suffix


@pytest.mark.parametrize(("members", "what"), [
    ([member("../up", content=b"x")], "leaves the workspace"),
    ([member("a/../../up", content=b"x")], "leaves the workspace"),
    ([member("/etc/passwd", content=b"x")], "leaves the workspace"),
    ([member("/".join("d" * 70), content=b"x")], "leaves the workspace"),
    ([member("link", tarfile.SYMTYPE, "/etc/shadow")], "leads outside"),
    ([member("sub/link", tarfile.SYMTYPE, "../../x")], "leads outside"),
    ([member("link", tarfile.SYMTYPE, "sub"), member("link/x", content=b"x")], "no folder"),
    ([member("hard", tarfile.LNKTYPE, "/etc/shadow")], "hard link"),
    ([member("hard", tarfile.LNKTYPE, "../../etc/shadow")], "hard link"),
    ([member("link", tarfile.SYMTYPE, "a"), member("hard", tarfile.LNKTYPE, "link")], "hard link"),
    ([member("null", tarfile.CHRTYPE)], "device"),
    ([member("disk", tarfile.BLKTYPE)], "device"),
    ([member("pipe", tarfile.FIFOTYPE)], "pipe"),
    ([member("a", content=b"1"), member("a", content=b"2")], "twice"),
    ([member("a", content=b"1"), member("./a", content=b"2")], "twice"),
])  # fmt: skip
def test_a_member_that_leads_out_or_is_no_file_is_refused(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], what: str
) -> None:
    with pytest.raises(DataError, match=what):
        load_workspace(archive(tmp_path / "w.tar", *members))


def test_a_hard_link_inside_is_a_copy(tmp_path: Path) -> None:
    path = archive(tmp_path / "w.tar", member("a", content=b"1"), member("b", tarfile.LNKTYPE, "a"))
    assert load_workspace(path).tree.nodes["b"] == Node(NodeKind.FILE, b"1")


def test_a_folder_with_a_pipe_or_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    os.mkfifo(tmp_path / "one/pipe")
    (tmp_path / "two").mkdir()
    (tmp_path / "two/link").symlink_to("/etc/shadow")
    for name, what in (("one", "pipe"), ("two", "leads outside")):
        with pytest.raises(DataError, match=what):
            load_workspace(tmp_path / name)


def test_a_small_archive_of_a_huge_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MAX_BYTES", 2**20)
    with zipfile.ZipFile(tmp_path / "w.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", bytes(2**22))
    path = archive(tmp_path / "w.tar.gz", member("zeros", content=bytes(2**22)), mode="w:gz")
    for one in (tmp_path / "w.zip", path):
        assert one.stat().st_size < 2**14
        collector = workspace._Collector(one, bytes_left=2**20)
        with pytest.raises(DataError, match="over"):
            collector.add_zip() if one.suffix == ".zip" else collector.add_tar()


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken", b"\x1f\x8b\x08broken"])
def test_what_is_no_archive_is_an_error_that_says_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "w"
    path.write_bytes(content)
    with pytest.raises(DataError, match="Name a folder, a tar or a zip"):
        load_workspace(path)
    with pytest.raises(DataError, match="cannot be read"):
        load_workspace(tmp_path / "missing")


def test_reading_back_is_bounded_in_files_bytes_and_depth(tmp_path: Path) -> None:
    for index in range(5):
        (tmp_path / str(index)).write_bytes(b"x" * 10)
    root = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert read_tree(root, 5, 50).complete
        assert not read_tree(root, 4, 50).complete
        cut = read_tree(root, 5, 45)
        assert not cut.complete
        assert sum(len(node.content) for node in cut.nodes.values()) == 45
        (tmp_path / "/".join("d" * 70)).mkdir(parents=True)
        assert not read_tree(root, 1000, 50).complete
    finally:
        os.close(root)


@pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")
def test_a_workspace_goes_into_a_sandbox_and_comes_back_as_the_command_left_it() -> None:
    nodes = {
        "a.txt": Node(NodeKind.FILE, b"a"),
        "empty": Node(NodeKind.FOLDER),
        "run": Node(NodeKind.FILE, b"#!/bin/sh\necho ran > b.txt\n", executable=True),
        "\udcff": Node(NodeKind.FILE, b"no text"),
        "link": Node(NodeKind.LINK, b"a.txt"),
    }
    start = make_workspace(nodes)
    assert sandbox.run_in_workspace(["true"], start).tree == start.tree
    result = sandbox.run_in_workspace(["/bin/sh", "-c", "./run && rm a.txt && chmod +x link 2>/dev/null; pwd"], start)
    assert result.stdout == "/box\n"
    assert result.tree is not None
    assert result.tree.nodes == {
        **{k: v for k, v in nodes.items() if k != "a.txt"},
        "b.txt": Node(NodeKind.FILE, b"ran\n"),
    }


def test_groups_are_found_below_our_own_in_both_versions(tmp_path: Path) -> None:
    one = cgroups.find_parents(tmp_path, ["9:name=systemd:/", "8:pids:/", "4:memory:/jobs/a", "1:cpu,cpuacct:/"])
    assert [(parent.folder, parent.limits) for parent in one] == [
        (tmp_path / "pids", (("processes", "pids.max"),)),
        (tmp_path / "memory/jobs/a", (("memory", "memory.limit_in_bytes"),)),
    ]
    own = tmp_path / "user.slice/a.scope"
    own.mkdir(parents=True)
    (own / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (two,) = cgroups.find_parents(tmp_path, ["0::/user.slice/a.scope"])
    assert (two.folder, two.limits) == (own, (("memory", "memory.max"), ("processes", "pids.max")))
    (own / "cgroup.subtree_control").write_text("\n")
    assert cgroups.find_parents(tmp_path, ["0::/user.slice/a.scope"]) == []
