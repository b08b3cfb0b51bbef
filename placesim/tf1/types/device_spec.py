"""`tf.DeviceSpec`, and `merge_device` and `canonical_name` of `tensorflow.python.framework.device`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.core.errors import GraphBuildError
from placesim.machine.device_names import ANY, enclose, format_spec, merge_specs, parse_python_spec
from placesim.machine.device_names import DeviceName as Parsed


def parse(text: str) -> Parsed:
    """Parse a device name as `tf.device` does.  Raises ValueError in TensorFlow's words."""
    try:
        return parse_python_spec(text)
    except GraphBuildError as error:
        raise ValueError(error.message) from None


def _device_type(value: object) -> str:
    # TensorFlow changes only these two words to upper case
    return str(value).upper() if value in ("cpu", "gpu") else str(value)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "job": str,
    "replica": int,
    "task": int,
    "device_type": _device_type,
    "device_index": int,
}


class DeviceSpec:
    """A device by its parts, each of which may be None.  This is version 1's class, whose parts can be set."""

    job: Any
    replica: Any
    task: Any
    device_type: Any
    device_index: Any

    def __init__(
        self,
        job: object = None,
        replica: str | int | None = None,
        task: str | int | None = None,
        device_type: object = None,
        device_index: str | int | None = None,
    ) -> None:
        self.job, self.replica, self.task = job, replica, task
        self.device_type, self.device_index = device_type, device_index

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value if value is None or name not in _CONVERTERS else _CONVERTERS[name](value))

    @property
    def parsed(self) -> Parsed:
        """The parts as a placesim DeviceName."""
        return Parsed(self.job, self.replica, self.task, self.device_type, self.device_index)

    @classmethod
    def of(cls, spec: Parsed) -> DeviceSpec:
        """The spec of a placesim DeviceName."""
        return cls(*spec)

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parse a device.  Raises ValueError for an invalid one."""
        return cls.of(parse(spec))

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Replace all parts by those of a device name.  Raises ValueError for an invalid one."""
        self.job, self.replica, self.task, self.device_type, self.device_index = parse(spec)
        return self

    def merge_from(self, dev: DeviceSpec) -> None:
        """Replace each part that `dev` sets."""
        self.job, self.replica, self.task, self.device_type, self.device_index = enclose(dev.parsed, self.parsed)

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Return a new spec with the parts of `dev`, or this spec's part where `dev` has none."""
        return DeviceSpec.of(enclose(dev.parsed, self.parsed))

    def replace(self, **kwargs: Any) -> DeviceSpec:
        """A new spec with some parts set."""
        return DeviceSpec(**{**vars(self), **kwargs})

    def to_string(self) -> str:
        """The canonical text."""
        return format_spec(self.parsed)

    def __repr__(self) -> str:
        return f"<DeviceSpec({', '.join(f'{name}={part}' for name, part in zip(_CONVERTERS, self.parsed, strict=True))})>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSpec) and self.parsed == other.parsed

    def __hash__(self) -> int:
        return hash(self.parsed)


DeviceSpecV1 = DeviceSpecV2 = DeviceSpec


def canonical_name(device: DeviceSpec | str | None) -> str:
    """Canonical name of a device, given as a name or a spec; empty for None.  Raises ValueError for an invalid name."""
    if device is None:
        return ""
    if isinstance(device, DeviceSpec):
        return device.to_string()
    return format_spec(parse(device))


def merge_device(spec: DeviceSpec | str | None) -> Callable[[Any], str]:
    """Return a device function: an op's own device, completed by the parts of `spec`."""
    parsed = spec.parsed if isinstance(spec, DeviceSpec) else parse(spec or "")

    def merge(op: Any) -> str:
        own = op.device if hasattr(op, "device") else op
        return format_spec(enclose(parse(own or ""), parsed))

    merge.spec = parsed  # type: ignore[attr-defined]
    return merge


def check_valid(spec: str) -> None:
    """Raise ValueError for an invalid device."""
    parse(spec)


def is_device_spec(value: object) -> bool:
    """Whether a value is a DeviceSpec of either version."""
    return isinstance(value, DeviceSpec)


__all__ = ["ANY", "DeviceSpec", "canonical_name", "check_valid", "is_device_spec", "merge_device", "merge_specs"]
