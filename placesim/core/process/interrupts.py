"""Ctrl-C in the command-line process: Ctrl-C always ends the process with exit code 130 and no message.

Before a command starts and after it has ended, the process ends at once. A running command is interrupted, so that it can clean
up. If the command does not return to Python soon, the process ends anyway.
"""

from __future__ import annotations

import os
import sys

from placesim.core.operating_system import set_non_blocking

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any, NoReturn
else:
    import _signal as signal  # importing `signal` and `typing` takes longer than pressing Ctrl-C

INTERRUPTED = 130
GRACE_SECONDS = 0.4
_seen: list[int] = []
_unhurried: list[bool] = []
_held: list[bool] = []
_last_words: list[LastWords] = []
LAST_WORDS_SECONDS = 5.0
"""Time limit for writing partial results while the main thread does not respond."""


def is_own_process() -> bool:
    """Whether this process was started as the command line, not by a program that imports the package."""
    # while the package is imported, the first word is `-m`; afterwards it is the path of `__main__`
    if "-m" in sys.orig_argv and (sys.argv[:1] == ["-m"] or os.path.basename(sys.argv[0]) == "__main__.py"):
        return sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] == ["placesim"]
    return os.path.basename(sys.argv[0] if sys.argv else "") in ("placesim", "placesim.exe")


def end_on_interrupt() -> None:
    """Make Ctrl-C end the process at once."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _interrupt):  # a background job may ignore it
        signal.signal(signal.SIGINT, _end)


def interrupt_commands() -> None:
    """Make Ctrl-C raise KeyboardInterrupt; if nothing handles the exception, the process ends."""
    if signal.getsignal(signal.SIGINT) is not _end:
        return
    from threading import Thread

    reader, writer = os.pipe()
    set_non_blocking(writer)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    Thread(target=_watch, args=(reader,), name="placesim-interrupts", daemon=True).start()
    sys.unraisablehook = _pass_over
    signal.signal(signal.SIGINT, _interrupt)


def default_interrupts() -> None:
    """Restore Python's handling of Ctrl-C before another program replaces this one."""
    if signal.getsignal(signal.SIGINT) in (_end, _interrupt):
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)


class InterruptGrace:
    """Context in which an interrupted command may take its time to write partial results; a second Ctrl-C ends it."""

    def __enter__(self) -> None:
        _unhurried.append(True)

    def __exit__(self, *_: object) -> None:
        _unhurried.pop()


class InterruptDelay:
    """Context in which output is completed before Ctrl-C takes effect, so that it is never half written."""

    def __enter__(self) -> None:
        self._before = len(_seen)
        _held.append(True)

    def __exit__(self, *_: object) -> None:
        _held.pop()
        if len(_seen) > self._before and not _held:
            raise KeyboardInterrupt


class LastWords:
    """Context during which a kernel may block the main thread; `say` is called before Ctrl-C ends the process.

    The call happens in another thread. There is no call inside an InterruptDelay or after the block has ended.
    """

    def __init__(self, say: Callable[[], object]) -> None:
        from threading import Lock

        self._say = say
        self._lock = Lock()

    def __enter__(self) -> None:
        _last_words.append(self)

    def __exit__(self, *_: object) -> None:
        self._lock.acquire()  # while `say` runs, the process ends before this returns
        _last_words.remove(self)
        if _seen:
            _unhurried.append(True)  # the command writes its partial results, and ends

    def speak(self) -> None:
        """Call `say`, unless the main thread responds again."""
        if not _held and self._lock.acquire(blocking=False):
            self._say()


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed. An interrupted import may raise another error than KeyboardInterrupt."""
    return bool(_seen)


def leave(code: int) -> NoReturn:
    """End the process with an exit code, without waiting for threads that are still running."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    os._exit(code)


def _end(number: int, frame: Any) -> None:
    os._exit(INTERRUPTED)


def _interrupt(number: int, frame: Any) -> None:
    _seen.append(number)
    if not _held:
        raise KeyboardInterrupt


def _watch(reader: int) -> None:
    """Handle signals from `reader`, which receives them even while the main thread runs no Python."""
    while signal.SIGINT not in os.read(reader, 64):
        pass
    import time

    time.sleep(GRACE_SECONDS)
    while _unhurried:
        time.sleep(GRACE_SECONDS)
    for words in _last_words[-1:]:
        from threading import Thread

        speaker = Thread(target=words.speak, daemon=True)
        speaker.start()
        speaker.join(LAST_WORDS_SECONDS)
        while _unhurried:
            time.sleep(GRACE_SECONDS)
    os._exit(INTERRUPTED)


def _pass_over(problem: Any) -> None:
    """Suppress the traceback of an interrupt inside a callback; the thread of `_watch` ends the process."""
    if not isinstance(problem.exc_value, KeyboardInterrupt | SystemExit):
        sys.__unraisablehook__(problem)
