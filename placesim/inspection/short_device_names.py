"""Short names of devices, for texts with little room."""

from __future__ import annotations

from collections.abc import Sequence

from placesim.core.styled_text import StyledText, device
from placesim.machine.device_names import ANY, DeviceName, parse_runtime_name

_LOCAL = "/job:localhost/replica:0/task:0/device:"


def short_device(name: str) -> StyledText:
    """Return `GPU:0` for a device of a single machine, and the full name of any other device."""
    return device(name.removeprefix(_LOCAL))


def short_names(devices: Sequence[str]) -> list[str]:
    """Return short names: `GPU:0`, or `worker:1/GPU:0` with several tasks."""
    specs = [parse_runtime_name(name) or ANY for name in devices]
    several = len({spec.address_space for spec in specs}) > 1
    return [f"{spec.job}:{spec.task}/{_kind(spec)}" if several else _kind(spec) for spec in specs]


def _kind(spec: DeviceName) -> str:
    return f"{spec.type}:{spec.id}"
