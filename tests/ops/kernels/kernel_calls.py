"""Kernels called one at a time on one device: an op's attrs are completed from the registry, its state is kept by node name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.core.dtypes import DataType, parse_dtype
from placesim.core.files.access import FileAccess
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.ops.attributes import FunctionName, Shape
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.device_resources import ResourceManager
from placesim.ops.kernels.kernel import KernelContext
from placesim.ops.kernels.shapes import Dims, ShapeContext
from placesim.ops.process.denormals import flushing_denormals
from placesim.ops.registry import load_registry
from placesim.runtime.executors.program import DeviceState

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
REGISTRY = load_registry()
KERNELS = load_kernels()


class Machine:
    """A device on which ops run; `functions` are Python functions of the inputs, by name; `files` may be touched, here all."""

    def __init__(self, functions: dict[str, Callable[..., Sequence[Any]]] | None = None) -> None:
        self.files = FileAccess(all_files=True)
        self._resources = ResourceManager()
        self._states: dict[str, dict[str, Any]] = {}
        self._step: dict[str, Any] = {}
        self._functions = functions or {}

    def new_step(self) -> None:
        self._step.clear()

    def state(self) -> DeviceState:
        """What outlives a step; shared with this machine."""
        (device,) = build_devices((TaskInventory(),))
        return DeviceState(device, resources=self._resources, node_states=self._states)

    def run(self, op: str, *inputs: Any, node: Any = "", **attrs: Any) -> Any:
        """The op's outputs: one alone, several as a tuple."""
        kernel, full = KERNELS[op], complete(op, attrs)
        name = node or op.lower()
        context = KernelContext(
            name, DEVICE, self._resources, self._states.setdefault(name, {}), self._step, self._call, files=self.files
        )
        with flushing_denormals():
            found = kernel.compute(inputs, full, context) if kernel.needs_context else kernel.compute(inputs, full)
        return found[0] if len(found) == 1 else tuple(found)

    def _call(self, function: FunctionName, inputs: Sequence[Any], device: str) -> Sequence[Any]:
        return self._functions[function.name](*inputs)


def complete(op: str, attrs: dict[str, Any]) -> dict[str, Any]:
    """Attrs as a graph holds them, with the defaults of those that are not given; types by name, shapes as tuples or None."""
    definition = REGISTRY.op(op)
    assert definition is not None
    found = {attr.name: attr.default for attr in definition.attrs.values() if attr.has_default}
    return found | {name: _held(value, definition.attrs[name].type) for name, value in attrs.items()}


def _held(value: Any, kind: str) -> Any:
    if kind.startswith("list("):
        return tuple(_held(element, kind[5:-1]) for element in value)
    if kind == "type":
        found: DataType = parse_dtype(value)
        return found
    return Shape(value) if kind == "shape" else FunctionName(value) if kind == "func" else value


def shapes(op: str, *inputs: Dims, values: Sequence[Any] = (), **attrs: Any) -> list[Dims]:
    """The static shapes of an op's outputs."""
    return list(KERNELS[op].shape(ShapeContext(inputs, complete(op, attrs), values)))
