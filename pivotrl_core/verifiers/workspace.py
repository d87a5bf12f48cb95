"""Workspaces: the files that an action starts from and those that it leaves, as values that no file system can spoil.

A workspace is a folder or an archive (tar, plain or compressed, or zip). It is read once, whole, never followed out of
itself, and handed to a sandbox as one tar image in memory that is unpacked INSIDE the sandbox; nothing is unpacked on
the host. Refused with an error: names that are absolute or hold `..`, links that lead outside, devices, pipes and
sockets, two members of one name, more than `MAX_FILES` or `MAX_BYTES` (counted as they are unpacked, so that a small
archive of a huge file is refused too).

What an action left is read back (`read_tree`) after all of its processes are dead, through a descriptor of its folder:
links are read as links, devices and pipes are named and not opened, counts and bytes are bounded.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn

from pivotrl_core.errors import DataError

MAX_FILES = 5_000
MAX_BYTES = 64 * 2**20
MAX_DEPTH = 64
_REMEDY = "Leave it out of the workspace."
_UNREADABLE = (
    OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, KeyError, RuntimeError,
    ValueError,
)  # fmt: skip


class NodeKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    SPECIAL = "special"
    """A device, a pipe, a socket, or a file that cannot be read."""


@dataclass(frozen=True, slots=True)
class Node:
    """One file, folder or link. `content` holds a file's bytes or a link's target; `mode` is known of what was read."""

    kind: NodeKind
    content: bytes = b""
    executable: bool = False
    mode: int | None = field(default=None, compare=False)

    @property
    def permissions(self) -> int:
        """Bits of its mode: those read, else those that a workspace's files are made with; a link has none."""
        if self.kind is NodeKind.LINK:
            return 0
        made = 0o755 if self.executable or self.kind is NodeKind.FOLDER else 0o644
        return made if self.mode is None else self.mode


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes by their path below the root. `complete` is False where a bound cut the reading short."""

    nodes: Mapping[str, Node]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Workspace:
    """What an action starts from: the nodes, the tar image of them, and a digest of both names and bytes."""

    tree: Tree
    image: bytes
    digest: str


def load_workspace(path: Path) -> Workspace:
    """Read a folder or an archive.

    Raises:
        DataError: it is missing, is no archive that can be read, or holds what a workspace must not hold.
    """
    try:
        nodes = _Collector(path)
        if path.is_dir():
            nodes.add_folder()
        elif zipfile.is_zipfile(path):
            nodes.add_zip()
        else:
            nodes.add_tar()
    except _UNREADABLE as error:
        raise DataError(f"workspace {path}: it cannot be read ({error}). Name a folder, a tar or a zip.") from error
    return make_workspace(nodes.found)


def make_workspace(nodes: Mapping[str, Node], backwards: bool = False) -> Workspace:
    """A workspace of given files. Equal nodes give equal bytes: sorted members, one time, no owner.

    `backwards` writes members the other way round, so that files are made in another order.
    """
    image = io.BytesIO()
    with tarfile.open(fileobj=image, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, node in sorted(nodes.items(), reverse=backwards):
            member = tarfile.TarInfo(name)
            member.mode = 0o755 if node.executable or node.kind is NodeKind.FOLDER else 0o644
            member.mtime = 1_000_000_000
            if node.kind is NodeKind.FOLDER:
                member.type = tarfile.DIRTYPE
            elif node.kind is NodeKind.LINK:
                member.type, member.linkname = tarfile.SYMTYPE, os.fsdecode(node.content)
            else:
                member.size = len(node.content)
            archive.addfile(member, io.BytesIO(node.content) if member.isfile() else None)
    data = image.getvalue()
    return Workspace(Tree(dict(nodes)), data, hashlib.sha256(data).hexdigest())


@dataclass(slots=True)
class _Collector:
    """Takes members of a source one by one and refuses what a workspace must not hold."""

    path: Path
    found: dict[str, Node] = field(default_factory=dict)
    bytes_left: int = MAX_BYTES

    def add_folder(self) -> None:
        for folder, folders, files in os.walk(self.path, onerror=_raise):
            for name in sorted((*folders, *files)):
                place = Path(folder, name)
                inside = place.relative_to(self.path).as_posix()
                status = place.lstat()
                if stat.S_ISLNK(status.st_mode):
                    self._add_link(inside, str(place.readlink()))
                elif stat.S_ISDIR(status.st_mode):
                    self._add(inside, Node(NodeKind.FOLDER))
                elif stat.S_ISREG(status.st_mode):
                    with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:  # noqa: PTH123 - a descriptor
                        self._add_file(inside, file, bool(status.st_mode & 0o100))
                else:
                    self._refuse(inside, "is a device, a pipe or a socket")

    def add_tar(self) -> None:
        with tarfile.open(self.path, mode="r:*") as archive:
            for member in archive:
                if member.issym():
                    self._add_link(member.name, member.linkname)
                elif member.isdir():
                    self._add(member.name, Node(NodeKind.FOLDER))
                elif member.isfile() or member.islnk():
                    self._add_tar_file(archive, member)
                else:
                    self._refuse(member.name, "is a device or a pipe")

    def _add_tar_file(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """A file; a hard link to an earlier file of this archive is a copy of it, any other is refused."""
        if member.islnk():
            earlier = self.found.get(_plain(member.linkname) or "")
            if earlier is None or earlier.kind is not NodeKind.FILE:
                self._refuse(member.name, "is a hard link to no earlier file of the archive")
            self._add_file(member.name, io.BytesIO(earlier.content), earlier.executable)
            return
        file = archive.extractfile(member)
        assert file is not None
        self._add_file(member.name, file, bool(member.mode & 0o100))

    def add_zip(self) -> None:
        with zipfile.ZipFile(self.path) as archive:
            for member in archive.infolist():
                mode = member.external_attr >> 16
                if member.is_dir():
                    self._add(member.filename, Node(NodeKind.FOLDER))
                elif stat.S_ISLNK(mode):
                    self._add_link(member.filename, os.fsdecode(archive.read(member)[:4096]))
                elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
                    with archive.open(member) as file:
                        self._add_file(member.filename, file, bool(mode & 0o100))
                else:
                    self._refuse(member.filename, "is a device, a pipe or a socket")

    def _add_file(self, name: str, file: IO[bytes], executable: bool) -> None:
        content = file.read(self.bytes_left + 1)
        if len(content) > self.bytes_left:
            self._refuse(name, f"brings the workspace over {MAX_BYTES} bytes")
        self.bytes_left -= len(content)
        self._add(name, Node(NodeKind.FILE, content, executable))

    def _add_link(self, name: str, target: str) -> None:
        inside = os.path.normpath(os.path.join(os.path.dirname(_plain(name) or ""), target))  # noqa: PTH118, PTH120
        if target.startswith("/") or inside == ".." or inside.startswith("../"):
            self._refuse(name, f"is a link that leads outside ({target[:80]!r})")
        self._add(name, Node(NodeKind.LINK, os.fsencode(target)))

    def _add(self, name: str, node: Node) -> None:
        inside = _plain(name)
        if inside is None:
            self._refuse(name, "leaves the workspace")
        if inside == ".":
            return
        for above in (str(one) for one in PurePosixPath(inside).parents if str(one) != "."):
            if self.found.setdefault(above, Node(NodeKind.FOLDER)).kind is not NodeKind.FOLDER:
                self._refuse(name, "lies below a member that is no folder")
        earlier = self.found.get(inside)
        if earlier is not None and not (earlier.kind is node.kind is NodeKind.FOLDER):
            self._refuse(name, "is there twice")
        self.found[inside] = node
        if len(self.found) > MAX_FILES:
            self._refuse(name, f"is one of more than {MAX_FILES} files")

    def _refuse(self, name: str, what: str) -> NoReturn:
        raise DataError(f"workspace {self.path}: {name[:200]!r} {what}. {_REMEDY}")


def _plain(name: str) -> str | None:
    """A member's name without `./` and final slash; None where it is absolute, holds `..`, is too deep or no name."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or len(path.parts) > MAX_DEPTH:
        return None
    return str(path)


def _raise(error: OSError) -> None:
    raise error


def read_tree(root: int, max_files: int, max_bytes: int) -> Tree:
    """Read what lies below a folder, given as a descriptor. No process may be changing it any more.

    Links are never followed: each folder is opened by its path below the root, of which every part was seen to be a
    folder, and its last part may not be a link.
    """
    nodes: dict[str, Node] = {}
    left = max_bytes
    folders = [""]
    complete = True
    while folders:
        above = folders.pop()
        if above.count("/") >= MAX_DEPTH:
            complete = False
            continue
        for name, status in _entries(root, above):
            if len(nodes) >= max_files:
                return Tree(nodes, complete=False)
            if status is None:
                complete = False
                break
            path = f"{above}/{name}" if above else name
            node = _read_node(root, path, status, left)
            left -= len(node.content)
            complete = complete and len(node.content) >= (status.st_size if node.kind is NodeKind.FILE else 0)
            nodes[path] = node
            if node.kind is NodeKind.FOLDER:
                folders.append(path)
    return Tree(nodes, complete)


def _entries(root: int, folder: str) -> Iterator[tuple[str, os.stat_result | None]]:
    """Names and what they are; one name without a status stands for a folder that may not be read."""
    try:
        descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=root)
    except OSError:
        yield "", None
        return
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                yield entry.name, entry.stat(follow_symlinks=False)
    finally:
        os.close(descriptor)


def _read_node(root: int, path: str, status: os.stat_result, max_bytes: int) -> Node:
    mode = status.st_mode
    permissions = mode & 0o777
    if stat.S_ISDIR(mode):
        return Node(NodeKind.FOLDER, mode=permissions)
    if stat.S_ISLNK(mode):
        return Node(NodeKind.LINK, os.fsencode(os.readlink(path, dir_fd=root)))
    if not stat.S_ISREG(mode):
        return Node(NodeKind.SPECIAL)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=root)
    except OSError:
        return Node(NodeKind.SPECIAL)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        return Node(NodeKind.FILE, file.read(max(0, max_bytes)), bool(mode & 0o100), permissions)
