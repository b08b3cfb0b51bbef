"""`tf.train.init_from_checkpoint`: initial values of variables from a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.files.gfile import StrPath
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.saving.readers import CheckpointReader, load_checkpoint
from placesim.tf1.saving.saveables import saveables_of
from placesim.tf1.saving.states import latest_checkpoint
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.variables.partitioned import PartitionedVariable
from placesim.tf1.variables.scopes import current_store
from placesim.tf1.variables.variable import Variable


def init_from_checkpoint(ckpt_dir_or_file: StrPath, assignment_map: Any) -> None:
    """Replace initializers of the graph's variables by reads of the checkpoint.

    `assignment_map` has pairs, as a mapping or a list: name of a tensor -> variable or name of a variable, or scope -> scope
    (`old/` -> `new/`; `/` is all).  Raises ValueError for a tensor that the checkpoint lacks, and for different shapes.
    """
    path = os.fspath(ckpt_dir_or_file)
    file = latest_checkpoint(path) if os.path.isdir(path) else path
    reader = load_checkpoint(ckpt_dir_or_file)
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    for tensor_name, target in sorted(pairs, key=lambda pair: pair[0]):
        found = _named(target)
        if found is not None:
            _initialise(found, tensor_name, file, reader, path)
        else:
            _initialise_scope(target, tensor_name, file, reader, path)


def _named(target: Any) -> Any:
    """The variable, given itself or by name, as a list if it has shards; None for an unknown name."""
    if isinstance(target, Variable):
        return target
    if isinstance(target, PartitionedVariable):  # TensorFlow only accepts the list of its parts
        raise TypeError("unsupported operand type(s) for +: 'PartitionedVariable' and 'str'")
    if isinstance(target, list) and all(isinstance(part, Variable) for part in target):
        return target
    store = current_store()
    if target in store.partitioned:
        return list(store.partitioned[target])
    return store.variables.get(target)


def _initialise_scope(target: str, tensor_name: str, file: object, reader: CheckpointReader, path: str) -> None:
    scope = target.rpartition("/")[0]
    if not tensor_name.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {scope} should map to scope only {tensor_name}. Should be 'scope/': "
            "'other_scope/'."
        )
    prefix = "" if tensor_name == "/" else tensor_name
    store = current_store()
    shards = {name for whole in store.partitioned.values() for name in (shard.op.name for shard in whole)}
    for name in sorted({*store.variables, *store.partitioned} - shards):
        if scope and not name.startswith(scope + "/"):
            continue
        inner = name[len(scope) + 1 :] if scope else name
        wanted = prefix + inner
        if not reader.has_tensor(wanted):
            raise ValueError(f"Tensor {wanted} ({inner} in {tensor_name}) is not found in {path} checkpoint")
        _initialise(_named(name), wanted, file, reader, path)


def _initialise(found: Any, tensor_name: str, file: Any, reader: CheckpointReader, path: str) -> None:
    shapes = reader.get_variable_to_shape_map()
    if tensor_name not in shapes:
        raise ValueError(f"Tensor {tensor_name} is not found in {path} checkpoint {shapes}")
    parts = found if isinstance(found, list) else [found]
    if isinstance(found, list):
        whole = TensorShape(found[0]._get_save_slice_info().full_shape)
        name = found[0]._get_save_slice_info().full_name
    else:
        whole, name = found.shape, found.name
    if not whole.is_compatible_with(shapes[tensor_name]):
        shown = tuple(whole.as_list())
        raise ValueError(
            f"Shape of variable {name} ({shown}) doesn't match with shape of tensor {tensor_name} ({shapes[tensor_name]}) "
            "from checkpoint reader."
        )
    for part in parts:
        info = part._get_save_slice_info()
        _set_initialiser(part, tensor_name, "" if info is None else info.spec, file)


def _set_initialiser(variable: Any, tensor_name: str, spec: str, file: Any) -> None:
    """Replace a variable's initialiser by a read of the checkpoint."""
    with tf.device(variable.device), tf.device("/cpu:0"):
        (value,) = gen("RestoreV2")(file, [tensor_name], [spec], [variable.dtype.base_dtype], name="checkpoint_initializer")
    saveable = saveables_of([variable])[0]
    variable.initializer = saveable.restore(value, None)
    value.set_shape(variable.shape)
    variable.initial_value = value
