"""Assignment of devices to workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placesim.core.errors import GraphBuildError, UnavailableError, UsageError
from placesim.core.grouped import grouped
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean
from placesim.machine.device_names import ANY, DeviceName, format_spec, parse_python_spec, parse_runtime_name
from placesim.runtime.cluster.versions import Offer

_MOST_NAMED = 8


class WorkerBinding(NamedTuple):
    """An option `--worker DEVICE=ADDRESS`: `spec` may match several devices; `worker` is an address, a name or a host."""

    text: str
    spec: DeviceName
    worker: str


class DeviceMove(NamedTuple):
    """A unit (task or device) that got another worker than requested, or shares a worker because there are too few workers."""

    device: str
    asked: str
    worker: str


class DeviceAssignment(NamedTuple):
    """The worker of each device, and the devices that soft placement moved."""

    workers: Mapping[str, str]
    moved: tuple[DeviceMove, ...] = ()


def parse_binding(text: str) -> WorkerBinding:
    """Parse `DEVICE=ADDRESS`. Raises UsageError for an invalid text."""
    device, equals, worker = text.partition("=")
    if not equals or not device or not worker:
        raise UsageError(f"wrong --worker: got '{text}', expected DEVICE=ADDRESS, such as /job:ps/task:0=tcp://10.0.0.2:40331")
    spec = parse_runtime_name(device)
    if spec is None:
        try:
            spec = parse_python_spec(device)
        except GraphBuildError as error:
            raise UsageError(f"wrong --worker: {error.message}") from None
    return WorkerBinding(text, spec, worker)


def group_by_unit(devices: Sequence[str], per: str) -> dict[str, list[str]]:
    """Return the devices of each unit that gets its own worker; a unit is named after its task or device."""
    return grouped((device if per == "device" else task_name(device), device) for device in devices)


def task_name(device: str) -> str:
    """Return the name of a device's task."""
    return format_spec(_spec(device).address_space)


def _spec(device: str) -> DeviceName:
    spec = parse_runtime_name(device)
    assert spec is not None
    return spec


def check_bindings(bindings: Sequence[WorkerBinding], devices: Sequence[str]) -> None:
    """Raise UsageError for a binding that names no device of the machine."""
    for binding in bindings:
        if not any(binding.spec.matches(_spec(device)) for device in devices):
            near = did_you_mean(format_spec(binding.spec), devices, SIMILAR_AMONG_FEW)
            known = ", ".join(devices[:_MOST_NAMED])
            raise UsageError(f"wrong --worker: got '{binding.text}', expected a device of the machine: {known}{near}")


def find_homes(
    devices: Sequence[str], per: str, bindings: Sequence[WorkerBinding], offers: Sequence[Offer], *, is_soft: bool
) -> DeviceAssignment:
    """Choose a worker for each device.

    A device goes to the worker of its binding, else to the worker that has the name of the device's unit, else to a free one.
    If several bindings match, the most specific one is used; of equally specific ones, the last. Without soft placement, all
    units that no binding names have workers of their own. There must be at least one worker. Raises UsageError for a binding to
    an unknown worker, and UnavailableError if there are too few workers.
    """
    return _WorkerChoice(devices, per, bindings, offers, is_soft).homes()


class _WorkerChoice:
    def __init__(
        self, devices: Sequence[str], per: str, bindings: Sequence[WorkerBinding], offers: Sequence[Offer], is_soft: bool
    ) -> None:
        self._devices = devices
        self._per = per
        self._units = group_by_unit(devices, per)
        self._bindings = bindings
        self._offers = offers
        self._is_soft = is_soft
        self._loads: Counter[str] = Counter()
        """Number of units on each worker."""
        self._found: dict[str, str] = {}
        self._moved: list[DeviceMove] = []

    def homes(self) -> DeviceAssignment:
        waiting = {unit: self._bound(unit, devices) for unit, devices in self._units.items()}
        waiting = {unit: self._named(unit, devices) for unit, devices in waiting.items() if devices}
        self._settle({unit: devices for unit, devices in waiting.items() if devices})
        return DeviceAssignment({device: self._found[device] for device in self._devices}, tuple(self._moved))

    def _bound(self, unit: str, devices: Sequence[str]) -> list[str]:
        """Assign the devices that bindings name, and return the others."""
        left = []
        chosen: dict[WorkerBinding, str] = {}
        for device in devices:
            binding = _best(self._bindings, _spec(device))
            if binding is None:
                left.append(device)
                continue
            if binding not in chosen:
                worker = self._worker_of(binding)
                chosen[binding] = worker or self._least_loaded()
                self._loads[chosen[binding]] += 1
                if worker is None:
                    self._moved.append(DeviceMove(unit, binding.worker, chosen[binding]))
            self._found[device] = chosen[binding]
        return left

    def _worker_of(self, binding: WorkerBinding) -> str | None:
        """Return the worker that a binding names; None if there is none, and soft placement may choose another."""
        named = _addresses_of(binding.worker, self._offers)
        if named:
            return min(named, key=lambda address: self._loads[address])
        if self._is_soft:
            return None
        addresses = [offer.address for offer in self._offers]
        near = did_you_mean(binding.worker, addresses, SIMILAR_AMONG_FEW)
        known = ", ".join(addresses[:_MOST_NAMED])
        raise UsageError(f"wrong --worker: got '{binding.text}', expected a worker of the cluster: {known}{near}")

    def _named(self, unit: str, devices: list[str]) -> list[str]:
        """Assign the devices to the free worker that has their unit's name; return the devices if there is none."""
        for offer in self._offers:
            spec = parse_runtime_name(offer.name) or ANY
            if spec.job is not None and spec.matches(_spec(unit)) and not self._loads[offer.address]:
                self._take(devices, offer.address)
                return []
        return devices

    def _settle(self, waiting: Mapping[str, list[str]]) -> None:
        free = [offer.address for offer in self._offers if not self._loads[offer.address]]
        if len(free) < len(waiting) and not self._is_soft:
            missing = list(waiting)[len(free) :]
            raise UnavailableError(
                f"too few workers: got {len(self._offers)} for {len(self._units)} {self._per}s, expected a further one for "
                f"{', '.join(missing[:_MOST_NAMED])}, or soft placement, which lets {self._per}s share a worker"
            )
        for unit, devices in waiting.items():
            address = free.pop(0) if free else self._least_loaded()
            if self._loads[address]:
                self._moved.append(DeviceMove(unit, "", address))
            self._take(devices, address)

    def _take(self, devices: Sequence[str], address: str) -> None:
        self._loads[address] += 1
        self._found.update(dict.fromkeys(devices, address))

    def _least_loaded(self) -> str:
        return min((offer.address for offer in self._offers), key=lambda address: self._loads[address])


def _best(bindings: Sequence[WorkerBinding], spec: DeviceName) -> WorkerBinding | None:
    """Return the most specific binding that matches; of equally specific ones, the last."""
    return max((binding for binding in reversed(bindings) if binding.spec.matches(spec)), key=_fields, default=None)


def _fields(binding: WorkerBinding) -> int:
    return sum(field is not None for field in binding.spec)


def _addresses_of(worker: str, offers: Sequence[Offer]) -> list[str]:
    """Return the addresses of the workers whose address is `worker`; if there are none, whose name is, else whose host is."""
    address = worker.rstrip("/")
    by_address = [offer.address for offer in offers if address in (offer.address, offer.address.partition("://")[2])]
    by_name = [offer.address for offer in offers if worker == offer.name]
    return by_address or by_name or [offer.address for offer in offers if worker == offer.host]
