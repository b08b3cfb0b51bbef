"""Merge of several checkpoints into one, as a saver joins its shards: data files are renamed and indexes joined.

Source: TensorFlow's `MergeBundles` in `tensor_bundle.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from placesim.core.checkpoints.checkpoint import Checkpoint, Locate, data_path, index_path
from placesim.core.checkpoints.index_entries import TensorEntry
from placesim.core.checkpoints.writer import encode_index
from placesim.core.errors import InternalError, InvalidArgumentError
from placesim.core.files.writer import WholeFiles


def merge_bundles(prefixes: Sequence[str], merged: str, allow_missing: bool = False, locate: Locate = Path) -> None:
    """Merge checkpoints into `merged`: rename data files, join the indexes and remove the old indexes.

    Raises InvalidArgumentError if two tensors have the same name and are not both parts. Also raises it if a checkpoint is
    missing, unless `allow_missing`.
    """
    target = locate(index_path(merged))
    target.parent.mkdir(exist_ok=True)
    present = [prefix for prefix in prefixes if _is_there(prefix, allow_missing, locate)]
    if not present:
        raise InvalidArgumentError("At least one prefix checkpoint file must exist, but none existed.")
    entries: dict[bytes, TensorEntry] = {}
    shards: dict[Path, int] = {}
    checkpoints = [Checkpoint(prefix, locate=locate) for prefix in present]
    for checkpoint in checkpoints:
        for key, entry in checkpoint.entries.items():
            _merge_entry(entries, shards, checkpoint, key, entry)
    total = sum(checkpoint.header.shards for checkpoint in checkpoints)
    with WholeFiles() as files:
        files.write(target, (encode_index(replace(checkpoints[0].header, shards=total), entries),))
        for path, number in shards.items():
            files.move(locate(path), locate(data_path(merged, number, len(shards))))
    for prefix in present:
        locate(index_path(prefix)).unlink()


def _is_there(prefix: str, allow_missing: bool, locate: Locate) -> bool:
    found = locate(index_path(prefix)).exists()
    if not found and not allow_missing:
        raise InvalidArgumentError(
            f"allow_missing_files was set to false and {prefix} did not exist.NOT_FOUND: {prefix} not found"
        )
    return found


def _merge_entry(
    entries: dict[bytes, TensorEntry], shards: dict[Path, int], checkpoint: Checkpoint, key: bytes, entry: TensorEntry
) -> None:
    known, shown = entries.get(key), key.decode(errors="replace")
    if known is None:
        path = data_path(checkpoint.prefix, entry.shard, checkpoint.header.shards)
        entries[key] = replace(entry, shard=shards.setdefault(path, len(shards)))
        return
    if not known.regions:
        raise InvalidArgumentError(f"Duplicate tensor keyed by {shown} encountered, when merging prefix: {checkpoint.prefix}")
    if not entry.regions:
        raise InternalError(f"Duplicate tensor keyed by {shown}; attempting to merge in a non-slice bundle entry")
    entries[key] = replace(known, regions=known.regions + entry.regions)
