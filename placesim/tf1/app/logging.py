"""`tf.logging`: messages on standard error, as TensorFlow's logger writes them."""

from __future__ import annotations

import logging as _logging
import sys
from functools import partial
from typing import Any

from placesim.tf1.graphs.tensor_likes import TensorLike

DEBUG, INFO, WARN, ERROR, FATAL = _logging.DEBUG, _logging.INFO, _logging.WARNING, _logging.ERROR, _logging.CRITICAL
_counts: dict[Any, int] = {}


class _Stderr(_logging.StreamHandler):  # type: ignore[type-arg]
    """Stream that writes to the current standard error."""

    def emit(self, record: _logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def get_logger() -> _logging.Logger:
    """The logger of TensorFlow's messages."""
    logger = _logging.getLogger("tensorflow")
    if not logger.handlers:
        handler = _Stderr()
        handler.setFormatter(_logging.Formatter(_logging.BASIC_FORMAT))
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(WARN)
    return logger


def log(level: int, msg: object, *args: Any, **kwargs: Any) -> None:
    """Write a message of a level."""
    get_logger().log(level, msg, *args, **kwargs)


debug, info, warn, error, fatal = (partial(log, level) for level in (DEBUG, INFO, WARN, ERROR, FATAL))
warning, vlog, TaskLevelStatusMessage = warn, log, error


def log_if(level: int, msg: object, condition: TensorLike, *args: object) -> None:
    """Write a message of a level if a condition is true."""
    if condition:
        log(level, msg, *args)


def _count(msg: object) -> int:
    frame = sys._getframe(2)
    key = (frame.f_code.co_filename, frame.f_lineno, str(msg))
    _counts[key] = _counts.get(key, -1) + 1
    return _counts[key]


def log_every_n(level: int, msg: object, n: int, *args: object) -> None:
    """Write a message of a level at one of every n calls from the same line of code, beginning with the first."""
    log_if(level, msg, _count(msg) % n == 0, *args)


def log_first_n(level: int, msg: object, n: int, *args: object) -> None:
    """Write a message of a level at the first n calls from the same line of code."""
    log_if(level, msg, _count(msg) < n, *args)


def get_verbosity() -> int:
    """Minimum level of written messages."""
    return get_logger().getEffectiveLevel()


def set_verbosity(v: int | str) -> None:
    """Set the minimum level of written messages."""
    get_logger().setLevel(v)


def flush() -> None:
    """Flush standard error."""
    sys.stderr.flush()
