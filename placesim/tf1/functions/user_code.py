"""Messages of exceptions in functions that TensorFlow rewrites (AutoGraph), which begin with `in user code:`."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from typing import Any

from placesim.tf1.errors import OpError

_PLACESIM = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PACKAGES = (_PLACESIM + os.sep, os.path.dirname(os.__file__) + os.sep)
"""Folders of code that AutoGraph does not rewrite: placesim and Python's library."""
_REBUILT = (
    AssertionError,
    AttributeError,
    NameError,
    NotImplementedError,
    RuntimeError,
    StopIteration,
    TypeError,
    UnboundLocalError,
    ValueError,
)
"""Exceptions that can be rebuilt from a message."""
_FACTORY = "outer_factory.<locals>.inner_factory.<locals>."


class AutoGraphError(Exception):
    """Base of exceptions from converted code."""

    __module__ = "tensorflow.python.autograph.pyct.errors"


class StagingError(AutoGraphError):
    """Replaces an exception that cannot be rebuilt from a message."""

    __module__ = "tensorflow.python.autograph.impl.api"


class _KeyError(KeyError):
    """A KeyError whose text is shown without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


_KeyError.__name__ = _KeyError.__qualname__ = "KeyError"


def call_user_code(function: Callable[..., Any], *args: object) -> Any:
    """Call a function, and change its exceptions as AutoGraph does."""
    try:
        return function(*args)
    except Exception as error:
        changed = _changed(error, function)
        if changed is None:
            raise
        raise changed.with_traceback(error.__traceback__) from None


def _changed(error: Exception, function: Callable[..., Any]) -> Exception | None:
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if not os.path.abspath(frame.filename).startswith(_PACKAGES)]
    if isinstance(error, NotImplementedError) and frames and frames[-1] not in own:
        return None  # placesim's error about a missing function says what to do
    lines = [
        f'    File "{frame.filename}", line {frame.lineno}, in {"None" if frame.name == "<lambda>" else frame.name}  *\n'
        f"        {_source(frame)}\n"
        for frame in own
    ]
    words = str(error.message if isinstance(error, OpError) else error)
    if not own:
        words = _as_rewritten(words, function)
    text = f"in user code:\n\n{''.join(lines)}\n    {type(error).__name__}: {words}\n"
    return _rebuilt(error, text)


def _source(frame: traceback.FrameSummary) -> str:
    """The source line of a frame; for a lambda expression, only the expression."""
    line = (frame.line or "").strip()
    if frame.name != "<lambda>" or frame.lineno is None:
        return line
    import ast
    import linecache

    text = "".join(linecache.getlines(frame.filename))
    place = (frame.lineno, frame.colno or 0)
    try:
        found = [
            node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Lambda)
            and (node.lineno, node.col_offset) <= place < (node.end_lineno or 0, node.end_col_offset or 0)
        ]
    except SyntaxError:
        return line
    if not found:
        return line
    lines = (ast.get_source_segment(text, found[-1]) or line).splitlines()
    return lines[frame.lineno - found[-1].lineno].strip()


def _as_rewritten(words: str, function: Callable[..., Any]) -> str:
    """Python's message about wrong arguments, with the name of the converted function."""
    if not inspect.isfunction(function):
        return words
    name = function.__name__ if function.__name__ == "<lambda>" else f"tf__{function.__name__}"
    return words.replace(f"{function.__qualname__}()", f"{_FACTORY}{name}()", 1)


def _rebuilt(error: Exception, text: str) -> Exception:
    kind = type(error)
    if kind is KeyError:
        return _KeyError(text)
    if isinstance(error, OpError):
        return kind(error.node_def, error.op, text)
    if kind in _REBUILT or kind.__init__ is Exception.__init__:
        return kind(text)
    return StagingError(text)
