"""`tf.logging`: messages on standard error, as TensorFlow's logger writes them."""

from __future__ import annotations

import logging as _logging
import sys
from typing import Any

from placesim.tf1.graphs.tensor_likes import TensorLike

DEBUG, INFO, WARN, ERROR, FATAL = _logging.DEBUG, _logging.INFO, _logging.WARNING, _logging.ERROR, _logging.CRITICAL
_counts: dict[Any, int] = {}


class _Stderr(_logging.StreamHandler):  # type: ignore[type-arg]
    """Stream that writes to the current standard error."""

    def emit(self, record: _logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _logger() -> _logging.Logger:
    logger = _logging.getLogger("tensorflow")
    if not logger.handlers:
        handler = _Stderr()
        handler.setFormatter(_logging.Formatter(_logging.BASIC_FORMAT))
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(WARN)
    return logger


def get_logger() -> _logging.Logger:
    """The logger of TensorFlow's messages."""
    return _logger()


def debug(msg: object, *args: Any, **kwargs: Any) -> None:
    """A message of the level DEBUG."""
    _logger().debug(msg, *args, **kwargs)


def info(msg: object, *args: Any, **kwargs: Any) -> None:
    """A message of the level INFO."""
    _logger().info(msg, *args, **kwargs)


def warn(msg: Any, *args: Any, **kwargs: Any) -> None:
    """A message of the level WARN."""
    _logger().warning(msg, *args, **kwargs)


warning = warn


def error(msg: object, *args: Any, **kwargs: Any) -> None:
    """A message of the level ERROR."""
    _logger().error(msg, *args, **kwargs)


def fatal(msg: Any, *args: Any, **kwargs: Any) -> None:
    """A message of the level FATAL."""
    _logger().fatal(msg, *args, **kwargs)


def log(level: int, msg: object, *args: Any, **kwargs: Any) -> None:
    """A message of a level."""
    _logger().log(level, msg, *args, **kwargs)


vlog = log


def log_if(level: int, msg: object, condition: TensorLike, *args: object) -> None:
    """A message of a level, if the condition holds."""
    if condition:
        log(level, msg, *args)


def _count(msg: object) -> int:
    frame = sys._getframe(2)
    key = (frame.f_code.co_filename, frame.f_lineno, str(msg))
    _counts[key] = _counts.get(key, -1) + 1
    return _counts[key]


def log_every_n(level: int, msg: object, n: int, *args: object) -> None:
    """A message of a level, at each n-th time, from the first on."""
    log_if(level, msg, _count(msg) % n == 0, *args)


def log_first_n(level: int, msg: object, n: int, *args: object) -> None:
    """A message of a level, the first n times."""
    log_if(level, msg, _count(msg) < n, *args)


def get_verbosity() -> int:
    """Minimum level of written messages."""
    return _logger().getEffectiveLevel()


def set_verbosity(v: int | str) -> None:
    """Set the minimum level of written messages."""
    _logger().setLevel(v)


def flush() -> None:
    """Do nothing: messages are not buffered."""
    sys.stderr.flush()


def TaskLevelStatusMessage(msg: object) -> None:  # noqa: N802 (TensorFlow's name)
    """A message of the level ERROR."""
    error(msg)
