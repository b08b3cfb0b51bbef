"""Digests of the files that a sweep's rows depend on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from placesim.core.errors import OpError
from placesim.core.files.access import checkpoint_files
from placesim.core.files.reader import is_stream, open_file, read_stream_path
from placesim.formats.recognition import is_script
from placesim.formats.sources.loading import read_bytes
from placesim.graph.session_steps import file_of_feed
from placesim.machine.options import make_options
from placesim.prediction.sweep_rows import SweepIdentity
from placesim.studies.simulation.settings import file_access
from placesim.studies.sweeping.axes import Axis, settings_of
from placesim.studies.sweeping.row_simulation import SweepJob, load_source

_DIGITS = 16
_PIECE_BYTES = 1 << 20


def identity_of(job: SweepJob, axes: Sequence[Axis], version: str) -> SweepIdentity:
    """Return the identity of the graph, the files that it reads, and the options common to all rows.

    Raises the errors of reading the graph.
    """
    options = {name: value for name, value in job.options.items() if value is not None and value not in ((), {})}
    told = {
        "options": options,
        "steps": job.steps,
        "examples": job.examples,
        "files": [_file_digest(path) for path in _option_files(job, axes)],
    }
    text = json.dumps(told, sort_keys=True, default=repr)
    return SweepIdentity(_graph_digest(job), _digest(text.encode()), version)


def _option_files(job: SweepJob, axes: Sequence[Axis]) -> Iterator[str | Path]:
    """Yield the files that options name: the common options of all rows, and the options that axes set."""
    directory = Path(job.source).parent if isinstance(job.source, str | Path) else Path()
    yield from _named_files(job.options, directory)
    for axis in axes:
        for value in axis.values:
            yield from _named_files(settings_of((axis.key,), (value,), {}).options, directory)


def _named_files(options: Mapping[str, Any], directory: Path) -> Iterator[str | Path]:
    profiles = options.get("profile", ())
    for value in (options.get("inventory"), *(profiles if isinstance(profiles, list | tuple) else (profiles,))):
        if isinstance(value, str | Path):
            yield value
    yield from _fed_files(options.get("feed", {}).values(), directory)
    checkpoint = options.get("checkpoint")
    if isinstance(checkpoint, str | Path):
        for path in checkpoint_files(checkpoint):
            yield from sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else (path,)
    for argument in options.get("arguments", ()):
        yield from (text for text in (argument, argument.partition("=")[2]) if os.path.isfile(text))


def _fed_files(values: Iterable[Any], directory: Path) -> Iterator[Path]:
    return (directory / path for path in map(file_of_feed, values) if path is not None)


def _graph_digest(job: SweepJob) -> str:
    source = job.source
    if isinstance(source, str | Path) and os.path.isdir(source):
        paths = sorted(path for path in Path(source).rglob("*") if path.is_file())
        return _digest("".join(f"{path.relative_to(source)}\n{_file_digest(path)}\n" for path in paths).encode())
    if isinstance(source, str | Path):
        data = read_bytes(source)
    else:
        data = source if isinstance(source, bytes) else json.dumps(source, sort_keys=True, default=repr).encode()
    files = _imported_files(Path(source)) if isinstance(source, str | Path) and is_script(source) else _graph_files(job, data)
    return _digest(data, *(f"\n{_file_digest(path)}".encode() for path in files))


_FILE_WORDS = (b"file", b"location", b"\\")
"""Words that occur in every graph that refers to files: keys of YAML and ONNX, and the backslash of YAML escapes."""


def _graph_files(job: SweepJob, data: bytes) -> Iterator[Path]:
    """Yield the files that a graph names: feeds of its steps, and tensors of an ONNX model."""
    if not any(word in data for word in _FILE_WORDS):
        return
    options = make_options(job.options)
    loaded = load_source(job, options)
    if loaded.onnx is not None:
        yield from loaded.onnx.tensor_files
    if loaded.file is not None:
        access = file_access(loaded, options)
        for path in _fed_files((feed.value for step in loaded.file.steps or () for feed in step.feeds), loaded.directory):
            with suppress(OpError):  # the simulated step raises the error for a forbidden file
                yield access.readable(path)


def _imported_files(script: Path) -> Iterator[Path]:
    """Yield the modules in a script's folder that it imports, directly or indirectly."""
    from modulefinder import ModuleFinder  # imported here, since only scripts need this module

    finder = ModuleFinder(path=[str(script.parent)])
    with suppress(SyntaxError, OSError, ValueError):  # the script's process reports the error
        finder.run_script(str(script))
    files = (getattr(module, "__file__", None) for module in finder.modules.values())
    yield from sorted({Path(file) for file in files if file} - {script})


def _file_digest(path: str | Path) -> str:
    found = hashlib.sha256()
    try:
        if is_stream(path):
            found.update(read_stream_path(path))
        else:
            with open_file(path) as file:
                while piece := file.read(_PIECE_BYTES):
                    found.update(piece)
    except (OSError, ValueError):
        return ""  # the code that reads this file reports the error
    return found.hexdigest()[:_DIGITS]


def _digest(*pieces: bytes) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()[:_DIGITS]
