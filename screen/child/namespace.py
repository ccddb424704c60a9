"""A namespace of processes, where Linux gives one: what runs in it sees no process outside, cannot signal any, and ends with its first process.

Rights of an administrator are used where they are there, else those that a namespace of users gives. A kernel or a container that refuses is asked
for nothing more: that is found out in a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

_MOUNTS, _USERS, _PROCESSES = 0x00020000, 0x10000000, 0x20000000
"""CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID"""
_RECURSIVE, _PRIVATE, _PLAIN = 1 << 14, 1 << 18, 2 | 4 | 8
"""MS_REC, MS_PRIVATE; MS_NOSUID, MS_NODEV and MS_NOEXEC together."""

_firsts: list[int] = []
"""The number, in its namespace, of the process that settled there."""


def enter() -> bool:
    """Whether the next process that is forked from this one is the first of a namespace; it has to call `settle`."""
    if sys.platform != "linux" or not _works():
        return False
    return _unshared()


def settle() -> bool:
    """In the first process: `/proc` shows what runs in the namespace, and nothing else."""
    libc = ctypes.CDLL(None, use_errno=True)
    private = libc.mount(None, b"/", None, ctypes.c_ulong(_RECURSIVE | _PRIVATE), None) == 0
    settled = private and int(libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(_PLAIN), None)) == 0
    _firsts.extend([os.getpid()] if settled else [])
    return settled


def is_first() -> bool:
    """Whether this process is the first of a namespace that it took, so that every other one that it sees runs below it."""
    return os.getpid() in _firsts


def described() -> str:
    """Whether there is one on this machine, as words."""
    return "a namespace of their own" if sys.platform == "linux" and _works() else "those of the machine: no namespace of processes can be had here"


def _works() -> bool:
    """Whether all of it can be had, tried in a process that ends."""
    if (child := os.fork()) == 0:
        with contextlib.suppress(BaseException):
            if _unshared():
                if (first := os.fork()) == 0:
                    os._exit(0 if settle() and os.path.isdir(f"/proc/{os.getpid()}") else 1)
                os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _unshared() -> bool:
    """Take the namespaces."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_MOUNTS | _PROCESSES) == 0:
        return True
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_USERS | _MOUNTS | _PROCESSES) != 0:
        return False
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    except OSError:
        return False
    return True


__all__ = ["described", "enter", "is_first", "settle"]
