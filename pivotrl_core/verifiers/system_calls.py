"""System calls that a sandbox refuses: those that reach what no namespace divides.

Sockets of all families but local ones, IP and netlink (a virtual machine's `AF_VSOCK` reaches its host whatever the
network namespace), keyrings of the kernel (a session's keys are inherited), and io_uring, bpf, perf events and
userfaultfd, which no program that is graded needs and much of a kernel hangs on. The filter is a classic BPF program
over `struct seccomp_data` (linux/seccomp.h), as bubblewrap takes it. Numbers: the kernel's unistd_64.h of x86, and
asm-generic/unistd.h. It is a wall more, no list of all that is safe.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000
"""Numbers from here on are those of x86's third ABI."""
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """An architecture by its audit number, and the numbers of its calls."""

    audit: int
    socket: int
    refused: tuple[int, ...]


_IO_URING = (425, 426, 427)
_MACHINES: Mapping[str, _Machine] = {
    # add_key, request_key, keyctl, perf_event_open, bpf, userfaultfd
    "x86_64": _Machine(audit=0xC000003E, socket=41, refused=(248, 249, 250, 298, 321, 323, *_IO_URING)),
    "aarch64": _Machine(audit=0xC00000B7, socket=198, refused=(217, 218, 219, 241, 280, 282, *_IO_URING)),
}


def filter_program(machine: str | None = None) -> bytes | None:
    """The program for a machine (`platform.machine()`; None: this one), or None where its numbers are not known."""
    calls = _MACHINES.get(platform.machine() if machine is None else machine)
    if calls is None:
        return None
    program = [
        _step(_LOAD, _ARCHITECTURE_AT), _step(_EQUAL, calls.audit, no=0, yes=1), _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT), _step(_AT_LEAST, _X32, no=1), _step(_RETURN, _KILL),
    ]  # fmt: skip
    for number in calls.refused:
        program += [_step(_EQUAL, number, no=1), _step(_RETURN, _FAIL | errno.EPERM)]
    program += [_step(_EQUAL, calls.socket, yes=1), _step(_RETURN, _ALLOW), _step(_LOAD, _FIRST_ARGUMENT_AT)]
    for family in _FAMILIES:
        program += [_step(_EQUAL, family, no=1), _step(_RETURN, _ALLOW)]
    return b"".join([*program, _step(_RETURN, _FAIL | errno.EAFNOSUPPORT)])


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One instruction; `yes` and `no` are how many a comparison leaves out."""
    return struct.pack("=HBBI", code, yes, no, value)
