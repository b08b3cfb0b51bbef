"""`tf.DeviceSpec`, and `merge_device` and `canonical_name` of `tensorflow.python.framework.device`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.core.errors import GraphBuildError
from placesim.machine.device_names import ANY, enclose, format_spec, merge_specs, parse_python_spec
from placesim.machine.device_names import DeviceName as Parsed

_FIELDS = ("job", "replica", "task", "type", "id")


def parse(text: str) -> Parsed:
    """A device as `tf.device` reads it.  Raises ValueError in TensorFlow's words."""
    try:
        return parse_python_spec(text)
    except GraphBuildError as error:
        raise ValueError(error.message) from None


class DeviceSpec:
    """A device by its parts, each of which may be None (the v1 class: the parts can be set)."""

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

    @property
    def job(self) -> Any:
        return self._job

    @job.setter
    def job(self, value: object) -> None:
        self._job = None if value is None else str(value)

    @property
    def replica(self) -> Any:
        return self._replica

    @replica.setter
    def replica(self, value: str | int | None) -> None:
        self._replica = None if value is None else int(value)

    @property
    def task(self) -> Any:
        return self._task

    @task.setter
    def task(self, value: str | int | None) -> None:
        self._task = None if value is None else int(value)

    @property
    def device_type(self) -> Any:
        return self._device_type

    @device_type.setter
    def device_type(self, value: object) -> None:
        value = None if value is None else str(value)
        # these two words alone: TensorFlow keeps any other as it is written
        self._device_type = value.upper() if value in ("cpu", "gpu") else value

    @property
    def device_index(self) -> Any:
        return self._device_index

    @device_index.setter
    def device_index(self, value: str | int | None) -> None:
        self._device_index = None if value is None else int(value)

    @property
    def parsed(self) -> Parsed:
        """The parts as a placesim DeviceName."""
        return Parsed(self.job, self.replica, self.task, self.device_type, self.device_index)

    @classmethod
    def of(cls, spec: Parsed) -> DeviceSpec:
        """A spec of placesim's own."""
        return cls(*spec)

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parse a device.  Raises ValueError for an invalid one."""
        return cls.of(parse(spec))

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Sets all parts from a text.  Raises ValueError."""
        found = parse(spec)
        self.job, self.replica, self.task, self.device_type, self.device_index = found
        return self

    def merge_from(self, dev: DeviceSpec) -> None:
        """Takes every part that the other sets."""
        found = enclose(dev.parsed, self.parsed)
        self.job, self.replica, self.task, self.device_type, self.device_index = found

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """New spec with the other's parts, completed by this one's."""
        return DeviceSpec.of(enclose(dev.parsed, self.parsed))

    def replace(self, **kwargs: Any) -> DeviceSpec:
        """A new spec with some parts set."""
        parts = {
            "job": self.job,
            "replica": self.replica,
            "task": self.task,
            "device_type": self.device_type,
            "device_index": self.device_index,
        }
        return DeviceSpec(**{**parts, **kwargs})

    def to_string(self) -> str:
        """The canonical text."""
        return format_spec(self.parsed)

    def __str__(self) -> str:
        return self.to_string()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSpec) and self.parsed == other.parsed

    def __hash__(self) -> int:
        return hash(self.parsed)


DeviceSpecV1 = DeviceSpecV2 = DeviceSpec


def canonical_name(device: DeviceSpec | str | None) -> str:
    """The canonical text of a device that is given as text, as a spec, or not at all.  Raises ValueError."""
    if device is None:
        return ""
    if isinstance(device, DeviceSpec):
        return device.to_string()
    return format_spec(parse(device))


def merge_device(spec: DeviceSpec | str | None) -> Callable[[Any], str]:
    """Device function that merges a spec under an op's own device."""
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
