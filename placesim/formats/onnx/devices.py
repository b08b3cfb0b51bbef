"""Device requests of an ONNX model's nodes, from annotations of two kinds.

- ONNX's annotations for several devices (IR version 11): `configuration` of the model, `device_configurations` of its nodes.
  Source: the ONNX Multi-Device Proposal in the repository onnx/onnx.
- Layers, which nodes name by the key `layer_ann` in their metadata, with rules for their devices. Source: ONNX Runtime's
  `session.layer_assignment_settings`, on its page about partitioning with annotations and memory constraints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from placesim.core.errors import GraphBuildError, UsageError
from placesim.graph.graph import Graph, Node
from placesim.machine.device_names import DeviceName, format_spec, parse_python_spec

LAYER_KEY = "layer_ann"
CONFIGURATION_FIELD, DEVICE_CONFIGURATIONS_FIELD = 26, 10
"""Field numbers in ModelProto and in NodeProto."""
DeviceOf = Callable[[Any], str | None]
"""Function that returns the requested device of a NodeProto; None if it has none."""


# --- configurations -------------------------------------------------------------------------------------------------


class NodeDevices:
    """The device requests of nodes under a model's first configuration.

    A node whose tensors are all on one device requests that device. A node with tensors on several devices has no request,
    since a TensorFlow op runs on one device. A node with only a pipeline stage requests the device with the stage's index.
    """

    def __init__(self, configurations: Sequence[Any], nodes: Iterable[Any]) -> None:
        self._name = configurations[0].name if configurations else ""
        self._devices = _devices(configurations[0]) if configurations else ()
        own = (found for node in nodes if (found := self._own(node)) is not None)
        stages = sorted({found.pipeline_stage for found in own if found.HasField("pipeline_stage")})
        self._places = {stage: place for place, stage in enumerate(stages)}

    def device_of(self, node: Any) -> str | None:
        """Return the requested device of a node, or None. Raises GraphBuildError for a device not in the configuration."""
        found = self._own(node)
        if found is None:
            return None
        numbers = {number for spec in found.sharding_spec for number in _numbers(spec)}
        if len(numbers) == 1 and not any(spec.sharded_dim for spec in found.sharding_spec):
            return self._device(numbers.pop())
        if not numbers and found.HasField("pipeline_stage") and found.pipeline_stage in self._places:
            return self._device(self._places[found.pipeline_stage])
        return None

    def _own(self, node: Any) -> Any:
        return next((each for each in node.device_configurations if each.configuration_id == self._name), None)

    def _device(self, number: int) -> str:
        if not 0 <= number < len(self._devices):
            has = f"configuration '{self._name}' has {len(self._devices)} devices"
            raise GraphBuildError(f"no such device: got number {number}, expected a smaller number: {has}")
        return self._devices[number]


def _numbers(spec: Any) -> Iterator[int]:
    """Yield the numbers of a tensor's devices."""
    groups = {entry.key: entry.value for entry in spec.index_to_device_group_map}
    for number in spec.device:
        yield from groups.get(number, (number,))


def _devices(configuration: Any) -> tuple[str, ...]:
    """Return the devices of a configuration, which are GPUs if it has no names."""
    if not configuration.device:
        return tuple(f"/device:GPU:{number}" for number in range(configuration.num_devices))
    if len(configuration.device) != configuration.num_devices:
        got = f"{len(configuration.device)} names for {configuration.num_devices} devices"
        raise GraphBuildError(f"configuration '{configuration.name}': got {got}")
    return tuple(_named_device(text, f"configuration '{configuration.name}'") for text in configuration.device)


_SHORT = re.compile(r"(cpu|gpu|cuda)(?:[:_ ]?(\d+))?", re.IGNORECASE)


def _named_device(text: str, where: str) -> str:
    """Return the device of `cuda:1`, `GPU1` or a name that `tf.device` accepts."""
    short = _SHORT.fullmatch(text)
    if short is not None:
        kind = "CPU" if short[1].lower() == "cpu" else "GPU"
        return f"/device:{kind}:" + (str(int(short[2])) if short[2] else "*")
    try:
        spec = parse_python_spec(text)
    except (GraphBuildError, ValueError):
        spec = DeviceName()
    if spec == DeviceName():
        ways = "expected such as 'cuda:1', 'cpu' or '/device:GPU:1', or --clear-devices"
        raise GraphBuildError(f"not a TensorFlow device: got '{text}' in {where}, {ways}")
    return format_spec(spec)


# --- layers ---------------------------------------------------------------------------------------------------------


class LayerRule(NamedTuple):
    """A device for nodes whose layer begins with `layer`, or equals it if `is_exact`; None for a device TensorFlow lacks."""

    device: str | None
    layer: str
    is_exact: bool


_ELSEWHERE = ("npu", "fpga", "dml")
"""ONNX Runtime's designators of devices that TensorFlow lacks. Rules for them are skipped, as in ONNX Runtime."""
_GPUS = ("gpu", "cuda", "accelerator", "gpu:nvidia", "gpu:amd", "gpu:intel")


def layer_rules(text: str) -> tuple[LayerRule, ...]:
    """Parse `gpu(encoder, decoder); cpu(=final_output)`. Raises UsageError for an invalid list."""
    rules: list[LayerRule] = []
    for part in filter(None, map(str.strip, text.split(";"))):
        designator, opens, rest = part.partition("(")
        layers, closes, behind = rest.partition(")")
        if not opens or not closes or behind.strip() or not designator.strip():
            expected = "expected one such as 'gpu:1(encoder, =head)'"
            raise UsageError(f"wrong layer rule: got '{part}', {expected} (in --layer-assignment '{text}')")
        device = _designated(designator.strip())
        for layer in filter(None, map(str.strip, layers.split(","))):
            name = layer.removeprefix("=").strip()
            rule = LayerRule(device, name, layer.startswith("="))
            if name and any((rule.layer, rule.is_exact) == (other.layer, other.is_exact) for other in rules):
                raise UsageError(f"duplicate layer: got '{layer}' in --layer-assignment '{text}', expected it once")
            if name:
                rules.append(rule)
    return tuple(rules)


def _designated(text: str) -> str | None:
    low = text.lower()
    if low in _ELSEWHERE:
        return None
    if low in _GPUS:
        return "/device:GPU:*"
    try:
        return _named_device(text, "--layer-assignment")
    except GraphBuildError:
        known = ", ".join(("cpu", "gpu", "gpu:1", *_GPUS[1:], *_ELSEWHERE))
        raise UsageError(
            f"unknown device: got '{text}' in --layer-assignment, expected {known}, or a device as in `--device`"
        ) from None


def rule_of(layer: str, rules: Sequence[LayerRule]) -> LayerRule | None:
    """Return the first rule for a prefix of this layer, else the rule for exactly this layer, else None."""
    by_prefix = (rule for rule in rules if not rule.is_exact and layer.startswith(rule.layer))
    return next(by_prefix, next((rule for rule in rules if rule.is_exact and layer == rule.layer), None))


def find_requested_devices(proto: Any, rules: Sequence[LayerRule]) -> DeviceOf:
    """Return a function that returns a node's requested device: by the rule for its layer, else by the first configuration."""
    configured = NodeDevices(proto.configuration, proto.graph.node)

    def device_of(node: Any) -> str | None:
        if rules:
            layer = next((entry.value for entry in node.metadata_props if entry.key == LAYER_KEY), "")
            rule = rule_of(layer, rules) if layer else None
            if rule is not None and rule.device is not None:
                return rule.device
        return configured.device_of(node)

    return device_of


def drop_device(node: Any) -> str | None:
    """Return None for every node, so that all requests are dropped."""
    return None


def request_where_possible(graph: Graph, start: int, device: str) -> None:
    """Set the requested device of nodes from id `start` on, unless they have a request, or no kernel for the device."""
    kind = parse_python_spec(device).type
    for node in graph.nodes[start:]:
        if not node.device and (kind is None or _has_kernel(graph, node, kind)):
            node.device = device


def _has_kernel(graph: Graph, node: Node, kind: str) -> bool:
    kernels = graph.registry.kernels(node.op)
    attrs = graph.full_attrs(node)
    return not kernels or any(kernel.device_type in (kind, "DEFAULT") and kernel.accepts(attrs) for kernel in kernels)
