"""Nodes of a Saver: saving a checkpoint as one file or one per device, and restoring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.core.grouped import grouped
from placesim.tf1.graphs.grouping import group, with_dependencies
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.saving.saveables import SaveableObject, cpu_of

V1, V2 = 1, 2
"""`SaverDef.CheckpointFormatVersion`."""
_REMOTE, _BESIDE, _TEMPORARY = "^s3://.*", ".part", "_temp/part"
"""Pattern of S3 paths; suffixes of temporary shards on S3 (no folder, since a rename copies there) and elsewhere."""


class SaveGraph:
    """The nodes of a Saver.  A SaverDef names its `filename`, `save` and `restore`."""

    def __init__(
        self, saveables: Sequence[SaveableObject], version: int, sharded: bool, reshape: bool, name: str | None, filename: Any
    ) -> None:
        self._version, self._reshape = version, reshape
        with tf.name_scope(name, "save", [saveable.op for saveable in saveables]):
            given = tf.placeholder_with_default(filename or "model", shape=(), name="filename")
            self.filename: Tensor = tf.placeholder_with_default(given, shape=(), name="Const")
            self.save: Tensor
            self.restore: Operation
            if sharded:
                shards = _by_device(saveables)
                self.save = self._save_merged(shards) if version == V2 else self._save_shards(shards)
                restored = []
                for device, members in shards:
                    with tf.device(device):
                        restored.append(self._restore(members, "restore_shard"))
                self.restore = group(*restored, name="restore_all")
            else:
                self.save = self._save(self.filename, saveables)
                self.restore = self._restore(saveables, "restore_all")

    # --- writing

    def _save(self, filename: Tensor, saveables: Sequence[SaveableObject]) -> Tensor:
        values = [saveable.tensor() for saveable in saveables]
        names = [saveable.name for saveable in saveables]
        specs = [saveable.slice_spec for saveable in saveables]
        if self._version == V2:
            written = gen("SaveV2")(filename, names, specs, values)
        else:
            written = gen("SaveSlices")(filename, names, specs, values, name="save")
        return with_dependencies([written], filename)

    def _save_merged(self, shards: Sequence[tuple[str, list[SaveableObject]]]) -> Tensor:
        """Save one temporary checkpoint per device, and merge them."""
        with tf.device("CPU"):
            is_remote = gen("StaticRegexFullMatch")(self.filename, pattern=_REMOTE)
            suffix = tf.where(is_remote, tf.constant(_BESIDE), tf.constant(_TEMPORARY))
            prefix = tf.string_join([self.filename, suffix])
        count = tf.constant(len(shards), name="num_shards")
        parts, saved, last = [], [], ""
        for i, (device, members) in enumerate(shards):
            last = cpu_of(device)
            with tf.device(last):
                parts.append(gen("ShardedFilename")(prefix, i, count))
                saved.append(self._save(parts[-1], members))
        with tf.control_dependencies([each.op for each in saved]), tf.device(last):
            merged = gen("MergeV2Checkpoints")(parts, self.filename, delete_old_dirs=True)
            with tf.control_dependencies([merged]):
                return tf.identity(self.filename)  # type: ignore[no-any-return]

    def _save_shards(self, shards: Sequence[tuple[str, list[SaveableObject]]]) -> Tensor:
        """Save one permanent file per device."""
        count = tf.constant(len(shards), name="num_shards")
        saved = []
        for i, (device, members) in enumerate(shards):
            with tf.device(cpu_of(device)):
                saved.append(self._save(gen("ShardedFilename")(self.filename, i, count), members))
        with tf.control_dependencies([each.op for each in saved]):
            return gen("ShardedFilespec")(self.filename, count)  # type: ignore[no-any-return]

    # --- reading

    def _restore(self, saveables: Sequence[SaveableObject], name: str) -> Operation:
        with tf.device("cpu:0"):
            values = gen("RestoreV2")(
                self.filename,
                [saveable.name for saveable in saveables],
                [saveable.slice_spec for saveable in saveables],
                [saveable.dtype for saveable in saveables],
            )
        assigned = []
        for saveable, value in zip(saveables, values, strict=True):
            shape = None
            if self._reshape:
                now = saveable.tensor()
                shape = tf.TensorShape(now.shape) if now.shape.is_fully_defined() else tf.shape(now)
                value = tf.reshape(value, shape)
            assigned.append(saveable.restore(value, shape))
        return group(*assigned, name=name)


def _by_device(saveables: Sequence[SaveableObject]) -> list[tuple[str, list[SaveableObject]]]:
    found = grouped((saveable.device, saveable) for saveable in saveables)
    return sorted(found.items(), key=lambda item: item[0])
