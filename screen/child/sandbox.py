"""What Linux takes from the process of a target before any of the user's code runs (`--sandbox`), without rights of an administrator.

*Landlock* (Linux 6.2): writes only below one folder of its own, and reads all but what is hidden; from 6.7 no TCP, from 6.12 no signal to processes
outside. A process behind it cannot trace one outside (ptrace, `/proc/…/mem`). *seccomp*: no new sockets, no tracing, no signals to our own processes,
no other modes, owners or times of files, which Landlock does not see. Both hold for all that is started from here, and nobody can take them off.

Source: the kernel's `userspace-api/landlock` and `userspace-api/seccomp_filter`, `include/uapi/linux/{landlock,seccomp,filter,capability}.h`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import platform
import shutil
import stat
import struct
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator

ADVICE = "`--sandbox auto` takes what there is; a container without network (`docs/security.md`) is a sandbox on every system"
"""What to try where one is required and cannot be had."""
LEAST = 3
"""The first version of Landlock that keeps a file from being emptied."""
HOME_SECRETS = (
    ".ssh", ".gnupg", ".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".aws", ".azure", ".config/gcloud", ".config/gh",
    ".config/glab-cli", ".docker", ".kube", ".npmrc", ".pypirc", ".kaggle", ".local/share/keyrings", ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
)  # fmt: skip
"""Files and folders of the user's home that are hidden: where tools keep what one logs in with."""
RUNNER = ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
"""Variables that name files of a runner."""
CACHES = ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "NUMBA_CACHE_DIR", "MPLCONFIGDIR")
"""Variables that name folders which libraries write to: all of them are the scratch folder."""
SHARED = (".cache", ".config")
"""Folders of a home that hold one for each program."""
MOST = 2000
"""Entries of a home that are linked."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/kfd", "/dev/dri/*")
"""What is written to outside of that folder; graphics cards are of use to the probe."""

_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE, _IOCTL = (1 << bit for bit in (0, 1, 2, 3, 14, 15))
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_ALL = (1 << 15) - 1
"""Rights of Landlock 3; version 5 adds `_IOCTL`."""
_TCP, _OUTSIDE = 3, 3
"""Both rights of version 4, both scopes of version 6."""
_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""Numbers of its calls, the same everywhere."""
_NO_NEW_RIGHTS, _HAS_SECCOMP, _SECCOMP = 38, 21, 22
"""Numbers of prctl(2)."""
_KEPT_RIGHTS = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: root in a container reads a tree that is another user's."""

_X86 = {
    "socket": 41, "connect": 42, "bind": 49, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "perf_event_open": 298, "bpf": 321, "userfaultfd": 323, "open_by_handle_at": 304, "unshare": 272, "setns": 308, "mount": 165,
    "add_key": 248, "request_key": 249, "keyctl": 250,
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260, "utime": 132, "utimes": 235,
    "futimesat": 261, "utimensat": 280, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
    "fremovexattr": 199, "tkill": 200,
}  # fmt: skip
_ARM = {
    "socket": 198, "connect": 203, "bind": 200, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
    "perf_event_open": 241, "bpf": 280, "userfaultfd": 282, "open_by_handle_at": 265, "unshare": 97, "setns": 268, "mount": 40,
    "add_key": 217, "request_key": 218, "keyctl": 219,
    "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55, "utimensat": 88, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7,
    "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16, "tkill": 130,
}  # fmt: skip
_SIGNALS = {"x86_64": (62, 234, 129, 297), "aarch64": (129, 131, 138, 240)}
"""kill, tgkill, rt_sigqueueinfo and rt_tgsigqueueinfo: the first argument of each says which process gets a signal."""
_LATER = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "pidfd_getfd": 438, "process_madvise": 440, "fchmodat2": 452, "setxattrat": 463,
    "removexattrat": 466,
}  # fmt: skip
"""Calls that have one number everywhere."""
_MACHINES = {"x86_64": (0xC000003E, _X86, 53, 302), "aarch64": (0xC00000B7, _ARM, 199, 261)}
"""Name of a machine -> how a filter knows it, what it refuses, the numbers of socketpair and prlimit64."""
_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050000 | 1, 0x7FFF0000
"""Answers of a filter; what is refused fails with EPERM."""
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24
"""Where a filter finds the number of a call, the machine and the lower halves of the first two arguments (both machines are little endian)."""


class _Rules(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def landlock() -> int:
    """The version of Landlock that this kernel has and this process may use; 0: none."""
    if sys.platform != "linux":
        return 0
    with contextlib.suppress(OSError):
        return _call(_CREATE, None, 0, 1)
    return 0


def missing() -> str:
    """What keeps this machine from a whole sandbox, as one clause; empty where nothing does."""
    if sys.platform != "linux":
        return f"{platform.system()} has neither Landlock nor seccomp"
    if (version := landlock()) < LEAST:
        found = f"has version {version} of Landlock" if version else "has no Landlock, or this container keeps it away"
        return f"this kernel {found}, and version {LEAST} is needed (Linux 6.2)"
    if platform.machine() not in _MACHINES:
        return f"filters of seccomp are written for {' and '.join(_MACHINES)}, and this is {platform.machine()}"
    return "" if _filters() else "this kernel has no seccomp, or this container keeps it away"


def described() -> str:
    """What a sandbox has on this machine, as one line."""
    version, why = landlock(), missing()
    parts = [f"Landlock {version} (files{', TCP' * (version >= 4)}{', signals' * (version >= 6)})"] if version >= LEAST else []
    parts += ["seccomp (sockets, tracing, modes of files)"] if _filters() else []
    return " and ".join(parts or ["none"]) + (f": {why}" if why else "")


def _filters() -> bool:
    """Whether the kernel takes filters of system calls that are written here."""
    return sys.platform == "linux" and platform.machine() in _MACHINES and ctypes.CDLL(None).prctl(_HAS_SECCOMP, 0, 0, 0, 0) >= 0


def secrets() -> list[str]:
    """What no target is to see, besides the files of a report: files of a runner, where tools keep keys, and where this process prints to."""
    home = os.path.expanduser("~")
    found = [os.path.join(home, name) for name in HOME_SECRETS]
    found += [path for name in RUNNER if (path := os.environ.get(name)) and not os.path.isdir(path)]  # a folder would hide the tree in it
    if folder := os.environ.get("HF_HOME"):
        found += [os.path.join(folder, "token"), os.path.join(folder, "stored_tokens")]
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(stream).st_mode):
                found.append(os.readlink(f"/proc/self/fd/{stream}"))
    return [path for path in found if os.path.isabs(path) and os.path.exists(path)]


def enclose(scratch: str, hidden: Iterable[str], kept: Collection[int] = ()) -> None:
    """This process from here on, and all that it starts. `scratch`: the folder that it may write to; `kept`: processes that get no signal from it
    (those outside of it all get none from Linux 6.12 on).

    Raises `OSError` with what is not there, after it has taken what is."""
    if sys.platform == "linux" and (threads := len(os.listdir("/proc/self/task"))) > 1:
        raise OSError(f"the process has {threads} threads already, and only one of them would be held")
    if landlock() >= LEAST:
        os.environ.update(dict.fromkeys(CACHES, scratch))
        tempfile.tempdir = None
        _drop_rights()
        _prctl(_NO_NEW_RIGHTS, 1)
        _restrict(scratch, hidden)
        if (home := _mirrored(os.path.expanduser("~"), scratch)) is not None:
            os.environ["HOME"] = home
    if _filters():
        code = _filter(kept)
        program = _Program(len(code) // 8, code)
        _prctl(_NO_NEW_RIGHTS, 1)
        _prctl(_SECCOMP, 2, ctypes.addressof(program))
    if why := missing():
        raise OSError(why)


def shown(hidden: Iterable[str]) -> Iterator[str]:
    """Files and folders that hold everything but what is hidden. A hidden file that does not exist keeps what is made beside it later from sight."""
    left = {path for path in map(os.path.realpath, hidden) if not path.startswith(("/proc/", "/dev/", "/sys/"))}
    above = {parent for path in left for parent in _parents(path)}
    folders = ["/"]
    if not above:
        yield "/"
        return
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.path in left or entry.is_symlink():  # a link is as visible as what it leads to
                    continue
                if entry.path in above and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield entry.path


def clear(folder: str) -> None:
    """Remove a folder that somebody else filled, however deep: what lies deeper than one level is moved up first."""
    fresh = 0
    with contextlib.suppress(OSError):
        while inner := [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]:
            for one in inner:
                os.chmod(one.path, 0o700)
                for entry in os.scandir(one.path):
                    fresh += 1
                    if entry.is_dir(follow_symlinks=False):
                        os.chmod(entry.path, 0o700)
                    os.rename(entry.path, os.path.join(folder, f".{fresh}-{os.getpid()}"))
                os.rmdir(one.path)
    shutil.rmtree(folder, ignore_errors=True)


def _mirrored(home: str, scratch: str) -> str | None:
    """A folder below the one that may be written to, with links to all that lies in the user's home: what is there is found, and a library that makes
    a cache of its own there makes it here. None where there is no home, or more in it than is linked."""
    mirror = os.path.join(scratch, "home")
    try:
        found = [(name, entry.path) for name, entry in _entries(home)]
        if len(found) > MOST:
            return None
        os.makedirs(mirror)
        for name, path in found:
            os.makedirs(os.path.dirname(os.path.join(mirror, name)), exist_ok=True)
            os.symlink(path, os.path.join(mirror, name))
    except OSError:
        return None
    return mirror


def _entries(home: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """What lies in a home, and in those folders of it that hold one for each program."""
    for entry in os.scandir(home):
        if entry.name in SHARED and entry.is_dir(follow_symlinks=False):
            yield from ((os.path.join(entry.name, inner.name), inner) for inner in os.scandir(entry.path))
        else:
            yield entry.name, entry


def _parents(path: str) -> Iterator[str]:
    while path != (path := os.path.dirname(path)):
        yield path


def _restrict(scratch: str, hidden: Iterable[str]) -> None:
    version = landlock()
    handled = _ALL | (_IOCTL if version >= 5 else 0)
    rules = _Rules(handled, _TCP if version >= 4 else 0, _OUTSIDE if version >= 6 else 0)
    fd = _call(_CREATE, ctypes.byref(rules), 24 if version >= 6 else 16 if version >= 4 else 8, 0)
    try:
        _allow(fd, "/", _LIST)  # names are seen, and what has them is not
        for path in shown(hidden):
            _allow(fd, path, _EXECUTE | _READ | _LIST)
        for path in (found for pattern in DEVICES for found in glob.glob(pattern)):
            _allow(fd, path, handled & (_READ | _WRITE | _TRUNCATE | _IOCTL))
        _allow(fd, scratch, handled)
        _call(_RESTRICT, fd, 0)
    finally:
        os.close(fd)


def _allow(rules: int, path: str, rights: int) -> None:
    """Rights on a file, or on everything below a folder. What cannot be opened cannot be read later either, but where files are short for now.
    Raises `OSError` there."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return
    try:
        folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        if rights := rights if folder else rights & _OF_FILES:
            _call(_ADD, rules, 1, ctypes.byref(_Beneath(rights, fd)), 0)
    finally:
        os.close(fd)


def _filter(kept: Collection[int] = ()) -> bytes:
    """The filter of system calls as classic BPF: (code, jump if true, jump if false, value) each."""
    machine, refused, pair, limits = _MACHINES[platform.machine()]

    def load(offset: int) -> tuple[int, int, int, int]:
        return 0x20, 0, 0, offset

    def last(answer: int) -> tuple[int, int, int, int]:
        return 0x06, 0, 0, answer

    code = [load(_MACHINE), (0x15, 1, 0, machine), last(_KILL), load(_NUMBER)]
    if platform.machine() == "x86_64":
        code += [(0x35, 0, 1, 0x40000000), last(_REFUSE)]  # the calls of x32 have other numbers
    for call in sorted({*refused.values(), *_LATER.values()}):
        code += [(0x15, 0, 1, call), last(_REFUSE)]
    code += [(0x15, 0, 5, pair), load(_SECOND), (0x54, 0, 0, 0xF), (0x15, 1, 0, 1), last(_REFUSE), load(_NUMBER)]  # streams: they stay connected
    spared = sorted({to & 0xFFFFFFFF for pid in kept for to in (pid, -_group(pid), -1)})  # all processes are -1, and a group is negative
    for call in _SIGNALS[platform.machine()] if spared else ():
        refuse = [step for to in spared for step in ((0x15, 0, 1, to), last(_REFUSE))]
        code += [(0x15, 0, len(refuse) + 2, call), load(_FIRST), *refuse, load(_NUMBER)]
    code += [(0x15, 0, 3, limits), load(_FIRST), (0x15, 1, 0, 0), last(_REFUSE)]  # limits of its own, and of no other process
    return b"".join(struct.pack("HBBI", *step) for step in [*code, last(_ALLOW)])


def _group(pid: int) -> int:
    """The group of a process; of one that is gone itself."""
    try:
        return os.getpgid(pid)
    except OSError:
        return pid


def _drop_rights() -> None:
    """Of root's rights only those to read a tree that is another's; a user has none to lose."""
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    held = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capget(head, held) != 0:
        raise _error("capget")
    for place, value in enumerate(held):
        held[place] = value & (_KEPT_RIGHTS if place < 2 else 0)  # effective and permitted of the first 32; nothing is inherited
    if libc.capset(head, held) != 0:
        raise _error("capset")


def _prctl(what: int, *values: int) -> None:
    given = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    if ctypes.CDLL(None, use_errno=True).prctl(what, *given) != 0:
        raise _error("prctl")


def _call(number: int, *values: object) -> int:
    """A system call. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    answer = int(libc.syscall(ctypes.c_long(number), *(ctypes.c_long(value) if isinstance(value, int) else value for value in values)))
    if answer < 0:
        raise _error("Landlock")
    return answer


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


__all__ = ["ADVICE", "clear", "described", "enclose", "landlock", "missing", "secrets", "shown"]
