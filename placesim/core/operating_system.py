"""Calls that differ between operating systems. Only this module uses names that Windows or macOS lacks.

Everything else in the package uses names that Python has on Linux, macOS and Windows.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from io import FileIO
    from socket import socket
    from typing import Any, BinaryIO, NoReturn

# --- files ----------------------------------------------------------------------------------------------------------

NON_BLOCKING: int = getattr(os, "O_NONBLOCK", 0)
"""Flag of `os.open` that opens a pipe without waiting for its writer; Windows has no pipes in folders."""
NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
"""Flag of `os.open` that refuses a symbolic link."""
REMOVES_OPEN_FILES = sys.platform != "win32"
"""Whether an open file can be removed."""
_REPLACE_PAUSES = (0.01, 0.1, 0.5)


def wait_for_lock(descriptor: int) -> None:
    """Lock an open file; wait while another process holds its lock. The system unlocks it when it is closed. Raises OSError."""
    if sys.platform == "win32":
        import msvcrt

        while True:
            os.lseek(descriptor, 0, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError as error:
                if error.errno != errno.EDEADLK:  # Windows stops waiting after ten seconds
                    raise
            else:
                return
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def replace_file(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Rename a file, and replace any file with the new name. Raises OSError.

    Windows does not replace a file that another program has open, as virus scanners do for a moment.
    """
    for seconds in _REPLACE_PAUSES if sys.platform == "win32" else ():
        try:
            os.replace(source, target)
        except PermissionError:
            import time

            time.sleep(seconds)
        else:
            return
    os.replace(source, target)


# --- streams --------------------------------------------------------------------------------------------------------


def is_reader_lost(error: OSError) -> bool:
    """Whether writing failed because nobody reads the pipe any more; Windows then reports an invalid argument."""
    return error.errno == errno.EPIPE or (sys.platform == "win32" and error.errno == errno.EINVAL)


def reader_is_gone(descriptor: int) -> bool:
    """Whether a descriptor is a pipe without a reader. False if the system can't tell before a write. Raises OSError."""
    import select

    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def set_non_blocking(descriptor: int) -> None:
    """Let writes to a full pipe fail instead of waiting. Python 3.11 can't do this on Windows."""
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, False)


SENDS_WITHOUT_WAITING = sys.platform != "win32"
"""Whether `send_without_waiting` works."""


def send_without_waiting(connection: socket, frames: Sequence[memoryview]) -> int:
    """Send as much as a socket takes at once, and return the number of bytes. Raises BlockingIOError if it takes none."""
    if sys.platform == "win32":
        raise NotImplementedError
    from socket import MSG_DONTWAIT

    return connection.sendmsg(frames, (), MSG_DONTWAIT)


def prepare_stream(stream: Any) -> None:
    """Let a Windows console show colours, and make a pipe or a file of Windows UTF-8, as everywhere else."""
    if sys.platform != "win32":
        return
    if not stream.isatty():
        stream.reconfigure(encoding="utf-8")
        return
    from colorama import just_fix_windows_console

    just_fix_windows_console()


# --- processes ------------------------------------------------------------------------------------------------------

REPLACES_PROCESSES = sys.platform != "win32"
"""Whether `os.execv` runs another program in the same process."""


def apart_options() -> Mapping[str, Any]:
    """Return the options of `Popen` for a process that the terminal's Ctrl-C does not reach."""
    if sys.platform == "win32":
        import subprocess

        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


_PIPE_BYTES = 1 << 20
"""Size of a pipe that Linux gives to any user."""
FORKS = sys.platform == "linux"
"""Whether a process can continue in a copy of itself; on macOS, libraries that Python calls may then stop working."""


def start_fork(work: Callable[[BinaryIO], object]) -> tuple[int, BinaryIO]:
    """Call `work` with a pipe in a copy of this process, which ends afterwards. Raises OSError.

    Returns the copy's process id, and the pipe's end for reading. Ctrl-C ends the copy without a message.
    """
    if sys.platform == "win32":
        raise NotImplementedError
    import signal

    reader, writer = os.pipe()
    _widen_pipe(writer)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the copy must not handle it as this process does
    try:
        process = os.fork()
        if not process:
            _work_and_end(work, reader, writer)
    except OSError:
        os.close(reader)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writer)
    return process, os.fdopen(reader, "rb")


def _widen_pipe(writer: int) -> None:
    """Let a pipe hold as much as its user may have in it, so that the copy can go on while nobody reads."""
    if sys.platform == "linux":
        import fcntl
        from contextlib import suppress

        with suppress(OSError):  # the user may have many such pipes
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _work_and_end(work: Callable[[BinaryIO], object], reader: int, writer: int) -> NoReturn:
    if sys.platform != "win32":
        import signal

        try:
            os.close(reader)  # so that writing fails when the other process has ended
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            with os.fdopen(writer, "wb") as pipe:
                work(pipe)
        except BaseException:
            os._exit(1)
    os._exit(0)


def end_fork(process: int) -> None:
    """End a copy of this process, and wait until it has ended."""
    if sys.platform != "win32":
        import signal

        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


# --- processors -----------------------------------------------------------------------------------------------------


def available_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(thread_processors()) or os.cpu_count() or 1


def thread_processors() -> set[int]:
    """Return the processors that this thread may use; none if the system can't assign threads to processors."""
    if sys.platform == "linux":
        return os.sched_getaffinity(0)
    return set()


def assign_thread(thread: int, processors: set[int]) -> None:
    """Let a thread, by its native number, use these processors only. Raises OSError if the system forbids it."""
    if sys.platform == "linux":
        os.sched_setaffinity(thread, processors)


def processor_name() -> str:
    """Return the processor name that the system reports."""
    import platform

    for line in _system_lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or os.name


def has_glibc() -> bool:
    """Whether the C library of this process is glibc."""
    return "CS_GNU_LIBC_VERSION" in getattr(os, "confstr_names", ())


# --- memory ---------------------------------------------------------------------------------------------------------


def free_bytes() -> int:
    """Return the free bytes of the machine or the process's control group, whichever are fewer.

    If neither is known, the result is a very large number.
    """
    if sys.platform != "linux":
        import psutil

        return int(psutil.virtual_memory().available)
    return min(_available_bytes(), _group_bytes())


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 if unknown."""
    if sys.platform != "linux":
        import psutil

        return int(psutil.Process().memory_info().rss)
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def peak_resident_bytes() -> int:
    """Return the peak resident memory of this process in bytes, which is quick to read; a huge number if unknown."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _available_bytes() -> int:
    for line in _system_lines("/proc/meminfo"):
        name, _, rest = line.partition(":")
        if name == "MemAvailable" and rest.split():
            return int(rest.split()[0]) * 1024
    return sys.maxsize


def _group_bytes() -> int:
    """Return the unused bytes of the control group's limit (cgroup version 2 or 1)."""
    root = "/sys/fs/cgroup"
    for group, limit, used in (
        (root, "memory.max", "memory.current"),
        (f"{root}/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            in_use = int(_system_lines(f"{group}/{used}")[0]) - _cached_bytes(group)
            return max(0, int(_system_lines(f"{group}/{limit}")[0]) - in_use)
        except (IndexError, ValueError):
            continue
    return sys.maxsize


def _cached_bytes(group: str) -> int:
    """Return the bytes of cached files in a control group, which the system would release at once."""
    lines = map(str.split, _system_lines(f"{group}/memory.stat"))
    return sum(int(words[1]) for words in lines if words[0] in ("inactive_file", "active_file"))


def _system_lines(path: str) -> list[str]:
    """Return the lines of a file of Linux's /proc or /sys; none if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


# --- shared memory --------------------------------------------------------------------------------------------------


def has_shared_memory() -> bool:
    """Whether processes can open each other's memory: only on Linux."""
    return sys.platform == "linux" and os.path.isdir("/proc/self/fd")


def open_shared_memory() -> FileIO:
    """Open an empty file in memory, which other processes can open by its path. Raises OSError if there is none left."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return open(os.memfd_create("placesim"), "r+b", buffering=0)


def shared_memory_path(file: FileIO) -> str:
    """Return the path by which processes on this machine, of the same user, open memory of this process."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"
