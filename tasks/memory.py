"""How the process of a stage gets its memory: large pages, and kept when it is freed.

A training step on a CPU allocates gigabytes of activations and frees them again. With pages of 4 KiB that are given
back each time, a fifth of the step goes into touching fresh ones (lab log, 2026-11-30). Results do not change.
"""

from __future__ import annotations

import ctypes
import os

# torch reads this at its first allocation: large tensors on pages of 2 MiB, where Linux grants them.
LARGE_PAGES = ("THP_MEM_ALLOC_ENABLE", "1")
# glibc's malloc.h. M_MMAP_THRESHOLD: what is larger gets pages of its own, or it leaves holes in the heap that nothing
# else fits into; M_TRIM_THRESHOLD and M_TOP_PAD: freed memory stays for the next tensor; M_ARENA_MAX: one heap for the
# threads of all lanes, because heaps of other threads cannot hold large tensors.
GLIBC_OPTIONS = {-3: 2**24, -1: 2**31 - 1, -2: 2**28, -8: 1}


def prepare_memory() -> None:
    """Set both for this process, before its first large tensor; a variable that is set already stays as it is.

    Another C library than glibc goes on as it does.
    """
    os.environ.setdefault(*LARGE_PAGES)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for option, size in GLIBC_OPTIONS.items():
        mallopt(option, size)
