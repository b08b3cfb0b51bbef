"""Checkpoints of a directory: its `checkpoint` file, and the files of each checkpoint."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from placesim.core.checkpoints.checkpoint_state import STATE_FILE, read_state
from placesim.core.errors import PlacesimError
from placesim.formats.tensorflow.messages import message_class, to_text
from placesim.tf1.files.gfile import StrPath

_SHARD = re.compile(r"\.data-\d{5}-of-\d{5}")


def generate_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> Any:
    """A CheckpointState; paths below a relative `save_dir` become relative to it."""
    paths = list(all_model_checkpoint_paths or ())
    if not paths or paths[-1] != model_checkpoint_path:
        paths.append(model_checkpoint_path)
    times = list(all_model_checkpoint_timestamps or ())
    if times and len(times) != len(paths):
        raise ValueError(
            f"Checkpoint timestamps, if provided, must match checkpoint paths (got paths {paths} and timestamps {times})"
        )
    if not os.path.isabs(save_dir):
        paths = [os.path.relpath(path, save_dir) if not os.path.isabs(path) else path for path in paths]
        if not os.path.isabs(model_checkpoint_path):
            model_checkpoint_path = os.path.relpath(model_checkpoint_path, save_dir)
    state = message_class("CheckpointState")(model_checkpoint_path=model_checkpoint_path, all_model_checkpoint_paths=paths)
    if times:
        state.all_model_checkpoint_timestamps.extend(times)
    if last_preserved_timestamp is not None:
        state.last_preserved_timestamp = last_preserved_timestamp
    return state


def update_checkpoint_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
    save_relative_paths: bool = False,
) -> None:
    """Write the `checkpoint` file.  Raises RuntimeError if that would overwrite the checkpoint."""
    path = os.path.join(save_dir, latest_filename or STATE_FILE)
    paths = list(all_model_checkpoint_paths or ())
    if save_relative_paths:
        if os.path.isabs(model_checkpoint_path):
            model_checkpoint_path = os.path.relpath(model_checkpoint_path, save_dir)
        paths = [os.path.relpath(each, save_dir) if os.path.isabs(each) else each for each in paths]
    state = generate_state(save_dir, model_checkpoint_path, paths, all_model_checkpoint_timestamps, last_preserved_timestamp)
    if path == state.model_checkpoint_path:
        raise RuntimeError(
            f"Save path '{model_checkpoint_path}' conflicts with path used for checkpoint state.  "
            "Please use a different save path."
        )
    temporary = f"{path}.tmp{os.getpid()}"
    with open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write(to_text(state))
    os.replace(temporary, path)


def get_checkpoint_state(checkpoint_dir: StrPath, latest_filename: str | None = None) -> Any:
    """CheckpointState of a directory with complete paths; None if there is no readable one."""
    path = os.path.join(os.fspath(checkpoint_dir), latest_filename or STATE_FILE)
    try:
        fields = read_state(Path(path).read_bytes(), path)
    except (OSError, PlacesimError) as error:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            sys.stderr.write(f"WARNING:tensorflow:{path}: Checkpoint ignored\n")
        return None
    newest = fields.get("model_checkpoint_path", ("",))[0]
    if not newest:
        raise ValueError(f"Invalid checkpoint state loaded from {checkpoint_dir}")
    state = message_class("CheckpointState")(
        model_checkpoint_path=_within(checkpoint_dir, newest),
        all_model_checkpoint_paths=[_within(checkpoint_dir, each) for each in fields.get("all_model_checkpoint_paths", ())],
        all_model_checkpoint_timestamps=[float(each) for each in fields.get("all_model_checkpoint_timestamps", ())],
    )
    for preserved in fields.get("last_preserved_timestamp", ()):
        state.last_preserved_timestamp = float(preserved)
    return state


def _within(directory: StrPath, path: str) -> str:
    return path if os.path.isabs(path) else os.path.join(os.fspath(directory), path)


def latest_checkpoint(checkpoint_dir: StrPath, latest_filename: str | None = None) -> str | None:
    """Prefix of the newest checkpoint; None if there is none."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None or not state.model_checkpoint_path:
        return None
    if checkpoint_exists(state.model_checkpoint_path):
        return state.model_checkpoint_path  # type: ignore[no-any-return]
    sys.stderr.write(f"ERROR:tensorflow:Couldn't match files for checkpoint {state.model_checkpoint_path}\n")
    return None


def checkpoint_files(prefix: StrPath) -> list[str]:
    """The files of a checkpoint: its index and its shards."""
    directory, name = os.path.split(os.fspath(prefix))
    try:
        entries = sorted(os.listdir(directory or "."))
    except OSError:
        return []
    found = [
        entry
        for entry in entries
        if entry == name + ".index" or (entry.startswith(name) and _SHARD.fullmatch(entry[len(name) :]) is not None)
    ]
    return [os.path.join(directory, entry) for entry in found]


def checkpoint_exists(checkpoint_prefix: StrPath) -> bool:
    """Whether a prefix has checkpoint files."""
    return os.path.exists(os.fspath(checkpoint_prefix) + ".index") or os.path.isfile(os.fspath(checkpoint_prefix))


def get_checkpoint_mtimes(checkpoint_prefixes: Sequence[str]) -> list[float]:
    """Write time of each checkpoint, in seconds since 1970; missing ones are left out."""
    found = []
    for prefix in checkpoint_prefixes:
        for path in (prefix + ".index", prefix):
            if os.path.exists(path):
                found.append(os.stat(path).st_mtime)
                break
    return found


def remove_checkpoint(checkpoint_prefix: str, checkpoint_format_version: object = 2, meta_graph_suffix: str = "meta") -> None:
    """Delete the files of a checkpoint and its meta graph."""
    meta = f"{checkpoint_prefix}.{meta_graph_suffix}"
    for path in (*checkpoint_files(checkpoint_prefix), meta, checkpoint_prefix):
        if os.path.isfile(path):
            os.remove(path)
