"""Report of an uncaught exception of a script: its class, message and the script's lines."""

from __future__ import annotations

import traceback
from collections.abc import Collection
from typing import Any

import placesim.core.errors as own
from placesim.core.errors import PlacesimError
from placesim.report.text.complaint import format_error, format_remedies
from placesim.tf1.errors import OpError
from placesim.tf1.running.advice import advice
from placesim.tf1.running.code_origin import is_ours, is_users

_MOST_FRAMES = 12


def own_frames(error: BaseException, script: str) -> list[traceback.FrameSummary]:
    """Frames of an exception, outermost first: from the script's first frame on, without frames of placesim."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, frame in enumerate(frames) if frame.filename == script), len(frames))
    return [frame for frame in frames[first:] if not is_ours(frame.filename)]


def is_tensorflow(error: BaseException) -> bool:
    """Whether TensorFlow would raise the error: a status of its runtime, or an exception raised in placesim's code."""
    if isinstance(error, OpError | PlacesimError):
        return True
    if isinstance(error, NotImplementedError | ImportError | SyntaxError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and is_ours(frames[-1].filename)


def describe(error: BaseException, script: str) -> dict[str, Any]:
    """Description of an error in plain values: class, message, place in the script, and lines of help."""
    frames = own_frames(error, script)
    file, line, column = script, 0, 0
    if frames:
        # the user's line, not that of an installed library that it calls
        frame = next((frame for frame in reversed(frames) if is_users(frame.filename)), frames[-1])
        frames = frames[: frames.index(frame) + 1]
        file, line, column = frame.filename, frame.lineno or 0, (frame.colno or 0) + 1
    elif isinstance(error, SyntaxError):
        line, column = error.lineno or 0, error.offset or 0
    return {
        "kind": type(error).__name__,
        "message": _message(error),
        "file": file,
        "line": line,
        "column": column,
        "raised_by_tensorflow": is_tensorflow(error),
        "help": [*_calls(error, frames), *advice(error)],
    }


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    return str(error.message).removeprefix(error.head) if isinstance(error, OpError) else str(error)


def _calls(error: BaseException, frames: list[traceback.FrameSummary]) -> list[str]:
    """The source of the innermost frame, and the calls that led there."""
    if isinstance(error, SyntaxError) and not frames:
        return [error.text.strip()] if error.text else []
    shown = [(frame, (frame.line or "").strip()) for frame in frames[: -_MOST_FRAMES - 1 : -1]]
    return [line if i == 0 else f"called at {frame.filename}:{frame.lineno}: {line}" for i, (frame, line) in enumerate(shown)]


def format_failure(error: BaseException, script: str, options: Collection[str]) -> str:
    """Message for standard error: placesim's own text if it has one, else the exception's, then the script's lines.

    `options` are those of the command, for the error's remedies.
    """
    if isinstance(error, OpError) and error.classic is not None:
        return error.classic
    facts = describe(error, script)
    original = error.original if isinstance(error, OpError) else error if isinstance(error, PlacesimError) else None
    if original is None:
        found = f"{facts['kind']}: {facts['message']}\n"
    else:
        graph = error.graph if isinstance(error, OpError) else None
        found = f"{format_error(original, _locate(error), graph)}{format_remedies(original, options)}"
    place = own.Location(facts["file"], facts["line"], facts["column"])
    return found + "".join(f"  {line}\n" for line in (f"at {place}", *facts["help"]))


def _locate(error: BaseException) -> Any:
    """Lookup of a node's location, in the graph that the error came from."""
    graph = getattr(error, "graph", None)

    def locate(name: str) -> own.Location | None:
        if graph is None or name not in graph.ids:
            return None
        found: own.Location | None = graph.location(graph.node(name))
        return found

    return locate
