"""Reading checkpoints without a graph: `tf.train.load_checkpoint` and related functions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from placesim.core.checkpoints.checkpoint import Checkpoint
from placesim.core.errors import PlacesimError
from placesim.tf1.errors import as_tensorflow
from placesim.tf1.files.gfile import StrPath
from placesim.tf1.saving.map_order import in_map_order
from placesim.tf1.saving.states import latest_checkpoint
from placesim.tf1.types import dtypes


class CheckpointReader:
    """`tf.train.NewCheckpointReader`: the tensors of a checkpoint by name."""

    def __init__(self, filepattern: StrPath) -> None:
        with _tensorflow_errors():
            self._checkpoint = Checkpoint(os.fspath(filepattern))

    @cached_property
    def _names(self) -> list[str]:
        return in_map_order(self._checkpoint.names)

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Each tensor's sizes."""
        return {name: list(self._checkpoint.entry(name).shape) for name in self._names}

    def get_variable_to_dtype_map(self) -> dict[str, Any]:
        """Each tensor's type."""
        return {name: dtypes.of(self._checkpoint.entry(name).dtype) for name in self._names}

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether the checkpoint has a tensor of that name."""
        return tensor_str in self._checkpoint

    def get_tensor(self, tensor_str: str) -> Any:
        """A tensor's value.  Raises `tf.errors.NotFoundError`."""
        with _tensorflow_errors():
            return self._checkpoint.read(tensor_str)


@contextmanager
def _tensorflow_errors() -> Iterator[None]:
    """Convert placesim's errors to TensorFlow's."""
    try:
        yield
    except PlacesimError as error:
        raise as_tensorflow(error, None) from None


def load_checkpoint(ckpt_dir_or_file: StrPath) -> CheckpointReader:
    """Reader of a checkpoint, or of a directory's newest checkpoint.  Raises ValueError if there is none."""
    given = os.fspath(ckpt_dir_or_file)
    path = latest_checkpoint(given) if os.path.isdir(given) else given
    if path is None:
        raise ValueError(f"Couldn't find 'checkpoint' file or checkpoints in given directory {ckpt_dir_or_file}")
    return CheckpointReader(path)


def load_variable(ckpt_dir_or_file: StrPath, name: str) -> Any:
    """The value of one tensor of a checkpoint."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def list_variables(ckpt_dir_or_file: StrPath) -> list[tuple[str, list[int]]]:
    """Names and shapes of a checkpoint's tensors, sorted by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())
