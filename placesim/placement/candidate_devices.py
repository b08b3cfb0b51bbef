"""Devices that satisfy a group's constraints; the preferred one comes first (6.1, 7.2)."""

from __future__ import annotations

from placesim.machine.device_names import DeviceName
from placesim.machine.inventory import Device, DeviceSet
from placesim.placement.constraints import COMPOSITE, Constraints, SoftStep, SpecFields, SupportedTypes, soften

_SOFT_STEPS = (SoftStep.WITHOUT_TYPE_AND_ID, SoftStep.WITHOUT_RESOURCE)


class CandidateSearch:
    """Finds candidates on a device set, and puts `default_device` first if it is a candidate (3.7)."""

    def __init__(self, devices: DeviceSet, soft: bool, default_device: Device | None) -> None:
        self._devices = devices
        self._soft = soft
        self._default_device = default_device
        self._soft_matches: dict[tuple[SpecFields, SupportedTypes], tuple[Device, ...]] = {}

    def find(self, found: Constraints) -> tuple[tuple[Device, ...], SoftStep]:
        """Return the devices that satisfy the constraints, and the soft-placement step that was needed.

        There are no devices if no step helps.
        """
        possible = self._filter(self._devices.matching(found.requested), found.types)
        # without any request there is nothing that soft placement could drop (6.1.1)
        if possible or not self._soft or not found.requested.has_details:
            return possible, SoftStep.NONE
        return self._find_softly(found)

    def _filter(self, devices: tuple[Device, ...], types: SupportedTypes) -> tuple[Device, ...]:
        """Return the devices of supported types, by kernel priority and then in device order (3.6)."""
        if not devices:
            return devices
        priorities = dict(types)
        # a composite device has no kernels of its own: it is kept for any op (5.6)
        kept = [device for device in devices if device.type in priorities or device.type == COMPOSITE]
        # `devices` already has the other keys of the order, and this sort is stable (3.6a)
        if any(priority for _, priority in types):
            highest = max(priorities.values())
            kept.sort(key=lambda device: -priorities.get(device.type, highest))
        # the default device precedes even devices whose kernel has a higher priority (3.7)
        if self._default_device is not None:
            kept.sort(key=lambda device: device != self._default_device)
        possible = tuple(kept)
        # one shared tuple for all groups without restrictions
        return devices if possible == devices else possible

    def _find_softly(self, found: Constraints) -> tuple[tuple[Device, ...], SoftStep]:
        """Search without the requested type and id, and then without the type and id of resources (7.2c)."""
        for step in _SOFT_STEPS:
            # Type and id are dropped together (7.4): a request for a missing GPU may yield a CPU, but no other GPU.
            key = (soften(found, step), found.types)
            known = self._soft_matches.get(key)
            if known is None:
                known = self._soft_matches[key] = self._filter(self._devices.matching(DeviceName(*key[0])), found.types)
            if known:
                return known, step
        return (), SoftStep.NONE
