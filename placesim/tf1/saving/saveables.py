"""Objects that a Saver saves: variables, and shards of partitioned ones, each under its name in the checkpoint."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types.device_spec import DeviceSpec
from placesim.tf1.types.read_only import read_only
from placesim.tf1.variables.partitioned import PartitionedVariable
from placesim.tf1.variables.reference import RefVariable
from placesim.tf1.variables.resource import HandledVariable
from placesim.tf1.variables.variable import Variable

_REF_OPS = ("Variable", "VariableV2", "AutoReloadVariable")


class SaveableObject:
    """One tensor of a checkpoint: its name, its `slice_spec` as in `shape_and_slices`, and the saved variable or tensor."""

    def __init__(self, saved: Any, slice_spec: str, name: str) -> None:
        self.saved, self.slice_spec, self.name = saved, slice_spec, name

    op = read_only("saved.op", "Op of the variable in the graph.")
    dtype = read_only("saved.dtype.base_dtype")

    @property
    def device(self) -> str:
        """Device of the variable, in the form of `Operation.device`."""
        return str(self.saved.device)

    def tensor(self) -> Tensor:
        """Input of `SaveV2`."""
        raise NotImplementedError

    def restore(self, tensor: Tensor, shape: Any) -> Any:
        """Assign a tensor to the variable.  `shape`: the shape to which the tensor was reshaped, or None."""
        raise NotImplementedError


class ReferenceSaveable(SaveableObject):
    """A reference variable or one of its shards, or the value of a shard."""

    def tensor(self) -> Tensor:
        return self.saved  # type: ignore[no-any-return]

    def restore(self, tensor: Tensor, shape: Any) -> Any:
        target = self.saved if self.saved._is_ref else self.saved.op.inputs[0]
        validate = shape is None and self.saved.shape.is_fully_defined()
        return tf.assign(target, tensor, validate_shape=validate)


class ResourceSaveable(SaveableObject):
    """A resource variable: the value of its own read op or, with `reads` (for a shard), of a new read op."""

    def __init__(self, variable: HandledVariable, slice_spec: str, name: str, reads: bool) -> None:
        super().__init__(variable, slice_spec, name)
        self._reads = reads

    def tensor(self) -> Tensor:
        if not self._reads:
            return self.saved._snapshot  # type: ignore[no-any-return]
        with tf.device(self.device):
            with tf.name_scope("Read"):
                gen("DisableCopyOnRead")(self.saved.handle)
                value = gen("ReadVariableOp")(self.saved.handle, self.saved.dtype)
            value = tf.identity(value)
        with tf.device(cpu_of(self.device)):
            return tf.identity(value)  # type: ignore[no-any-return]

    def restore(self, tensor: Tensor, shape: Any) -> Any:
        with tf.device(self.device):
            tensor = tf.identity(tensor)
            if not self.saved.shape.is_compatible_with(tensor.shape):
                raise ValueError(f"Shapes {self.saved.shape} and {tensor.shape} are incompatible")
            return gen("AssignVariableOp")(self.saved.handle, tensor)


class DistributedSaveable(SaveableObject):
    """A variable of a strategy: the common value of its components."""

    @property
    def device(self) -> str:
        return str(self.saved.devices[0])

    def tensor(self) -> Tensor:
        return self.saved.distribute_strategy.read_var(self.saved)  # type: ignore[no-any-return]

    def restore(self, tensor: Tensor, shape: Any) -> Any:
        return self.saved.assign_components("assign", tensor)


def cpu_of(device: str) -> str:
    """The CPU of a device's task."""
    spec = DeviceSpec.from_string(device or "")
    return spec.replace(device_type="CPU", device_index=0).to_string()


def saveables_of(given: object) -> list[SaveableObject]:
    """Saveables in the order of the names. Raises TypeError and ValueError for values that can't be saved."""
    found: list[SaveableObject] = []
    seen: set[Any] = set()
    for name, value in sorted(names_of(given).items()):
        for saveable in _of_one(name, value):
            if saveable.op in seen:
                raise ValueError(f"The same saveable will be restored with two names: {name}")
            seen.add(saveable.op)
            found.append(saveable)
    return found


def names_of(given: object) -> dict[str, Any]:
    """Map names in the checkpoint to variables, or to lists of shards."""
    if isinstance(given, dict):
        return {name: _shards(name, value) for name, value in given.items()}
    if not isinstance(given, list | tuple | set):
        raise TypeError(f"Variables to save should be passed in a dict or a list. Got {given}")
    found: dict[str, Any] = {}
    for item in sorted(given, key=lambda each: getattr(each, "name", "")):
        if isinstance(item, SaveableObject):
            found[item.name] = item
        elif isinstance(item, PartitionedVariable):
            if item.name in found:
                raise ValueError(f"At least two variables have the same name: {item.name}")
            found[item.name] = list(item)
        elif isinstance(item, Variable) and item._get_save_slice_info() is not None:
            part = item._get_save_slice_info()
            name = str(part and part.full_name)
            found.setdefault(name, [])
            if not isinstance(found[name], list):
                raise ValueError(f"Mixing slices and non-slices with the same name: {name}")
            found[name].append(item)
        else:
            name = _variable_name(item)
            if name in found:
                raise ValueError(f"At least two variables have the same name: {name}")
            found[name] = item
    return found


def _shards(name: str, value: TensorLike) -> Any:
    if isinstance(value, PartitionedVariable | tuple):
        return list(value)
    return value


def _variable_name(item: object) -> str:
    if isinstance(item, Variable):
        return str(item.op.name)
    tensor = tf.convert_to_tensor(item, as_ref=True) if not isinstance(item, Tensor) else item
    if not _is_variable(tensor):
        raise TypeError(f"Variable to save is not a Variable: {tensor}")
    return tensor.op.name


def _is_variable(tensor: Any) -> bool:
    return tensor.op.type in _REF_OPS


def _of_one(name: str, value: TensorLike) -> list[SaveableObject]:
    if not isinstance(name, str):
        raise TypeError(
            f"names_to_saveables must be a dict mapping string names to trackable operations. Name is not a string: {name}"
        )
    if isinstance(value, SaveableObject):
        return [value]
    if isinstance(value, list):
        return [_of_shard(name, shard, value[0]) for shard in value]
    if isinstance(value, HandledVariable):
        is_distributed = value.is_distributed_variable
        return [DistributedSaveable(value, "", name) if is_distributed else ResourceSaveable(value, "", name, reads=False)]
    tensor = value._as_graph_element() if isinstance(value, Variable) else value
    if not isinstance(tensor, Tensor):
        tensor = tf.convert_to_tensor(value)
    if isinstance(value, RefVariable):
        tensor = value._ref()
    if not _is_variable(tensor):
        raise TypeError(
            f"names_to_saveables must be a dict mapping string names to Tensors/Variables. Not a variable: {tensor}"
        )
    return [ReferenceSaveable(tensor, "", name)]


def _of_shard(name: str, shard: object, first: Any) -> SaveableObject:
    if not isinstance(shard, Variable):
        raise ValueError(f"Slices must all be Variables: {shard}")
    info = shard._get_save_slice_info()
    if info is None:
        raise ValueError(f"Slices must all be slices: {shard}")
    whole = first._get_save_slice_info().full_name
    if whole != info.full_name:
        raise ValueError(f"Slices must all be from the same tensor: {whole} != {info.full_name}")
    if isinstance(shard, HandledVariable):
        return ResourceSaveable(shard, info.spec, name, reads=True)
    return ReferenceSaveable(tf.convert_to_tensor(shard), info.spec, name)
