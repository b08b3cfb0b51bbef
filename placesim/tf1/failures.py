"""An exception that a script did not catch -> what a user is told: its class, its words, and the script's own lines."""

from __future__ import annotations

import os
import traceback
from typing import Any

from placesim import errors as own
from placesim.errors import PlacesimError
from placesim.report.text.complaint import format_error
from placesim.tf1.errors import OpError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_FRAMES = 12


def own_frames(error: BaseException, script: str) -> list[traceback.FrameSummary]:
    """The frames of an exception from the script's first on, without those of placesim; the innermost is the last."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, frame in enumerate(frames) if frame.filename == script), len(frames))
    return [frame for frame in frames[first:] if not _is_ours(frame.filename)]


def _is_ours(file: str) -> bool:
    return os.path.abspath(file).startswith(_PACKAGE) or file.startswith("<frozen ")


def is_tensorflow(error: BaseException) -> bool:
    """Whether it is TensorFlow that raises: a status of its runtime, or an exception from within placesim's own code."""
    if isinstance(error, OpError | PlacesimError):
        return True
    if isinstance(error, NotImplementedError | ImportError | SyntaxError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and _is_ours(frames[-1].filename)


def describe(error: BaseException, script: str) -> dict[str, Any]:
    """What is told of it, in plain values: class, message, the place in the script, and lines of help."""
    frames = own_frames(error, script)
    if isinstance(error, SyntaxError) and not frames:
        place = (error.lineno or 0, error.offset or 0)
        return {"kind": "unreadable", "place": place, "message": f"no Python: {error.msg}"}
    kind, message = type(error).__name__, _message(error)
    lines = _said(error, frames)
    at = next((frame for frame in reversed(frames) if frame.filename == script), None)
    return {
        "kind": kind,
        "message": message,
        "file": script,
        "line": 0 if at is None else at.lineno or 0,
        "column": 0 if at is None or at.colno is None else at.colno + 1,
        "raised_by_tensorflow": is_tensorflow(error),
        "help": lines,
    }


def _message(error: BaseException) -> str:
    if isinstance(error, OpError):
        return str(error.message)
    text = str(error)
    return f"No module named {error.name!r}" if isinstance(error, ModuleNotFoundError) and error.name and not text else text


def _said(error: BaseException, frames: list[traceback.FrameSummary]) -> list[str]:
    """The calls that led there, the script's line last."""
    shown = frames[-_MOST_FRAMES:]
    return [f"{frame.filename}:{frame.lineno}: {(frame.line or '').strip()}" for frame in shown]


def format_failure(error: BaseException, script: str) -> str:
    """The text for standard error: placesim's own where it has better words than the exception, then the script's lines."""
    frames = own_frames(error, script)
    original = error.original if isinstance(error, OpError) else error if isinstance(error, PlacesimError) else None
    if original is not None:
        found = str(format_error(original, _locate(error)))
    else:
        told = own.PlacesimError(_message(error))
        found = f"{type(error).__name__}: {told.message}\n"
    return found + "".join(f"  at {line}\n" for line in reversed(_said(error, frames)))


def _locate(error: BaseException) -> Any:
    """Where a node stands, by the graph that the error came from."""
    graph = getattr(error, "graph", None)

    def locate(name: str) -> own.Location | None:
        if graph is None or name not in graph.ids:
            return None
        found: own.Location | None = graph.location(graph.node(name))
        return found

    return locate
