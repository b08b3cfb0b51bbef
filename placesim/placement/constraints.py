"""Constraints of colocation groups, as values, and the merge of two groups' constraints (5.1, 5.4, 5.5).

Groups with equal initial constraints share one `Constraints`, so that a million unconstrained nodes need only a few objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from placesim.machine.device_names import ANY, DeviceName, merge_specs
from placesim.machine.inventory import Device

SupportedTypes = tuple[tuple[str, int], ...]
"""Device types with the priority of their kernel; the preferred one comes first."""

SpecFields = tuple[str | None, int | None, int | None, str | None, int | None]
"""Fields of a `DeviceName`."""

COMPOSITE = "COMPOSITE"
"""Type of a device that combines several; it supports any op that one of them supports (5.6)."""


class SoftStep(IntEnum):
    """Step of soft placement: the degree to which a request was relaxed (7.2c)."""

    NONE = 0
    WITHOUT_TYPE_AND_ID = 1
    WITHOUT_RESOURCE = 2


class Constraints:
    """Constraints of a group; immutable, except for cached results.

    `requested` is always at least as specific as `assigned` and `resource`. `candidates` are the remaining devices after
    `soft_step`, the preferred device first. `origin` has the constraints before a device was chosen for the group.
    """

    __slots__ = (
        "_names",
        "assigned",
        "candidates",
        "fixed",
        "merged",
        "origin",
        "requested",
        "resource",
        "soft_step",
        "tied",
        "types",
    )

    def __init__(
        self,
        requested: DeviceName,
        assigned: DeviceName,
        resource: DeviceName,
        types: SupportedTypes,
        origin: Constraints | None = None,
    ) -> None:
        self.requested = requested
        self.assigned = assigned
        self.resource = resource
        self.types = types
        self.origin = origin
        self.candidates: tuple[Device, ...] = ()
        self.soft_step = SoftStep.NONE
        self.merged: tuple[Constraints, Constraints] | None = None
        self.tied: tuple[Constraints, Constraints] | None = None
        self.fixed: dict[str, Constraints] | None = None
        self._names: frozenset[str] | None = None

    @property
    def specs(self) -> tuple[DeviceName, DeviceName, DeviceName]:
        """The requested device, the assigned device and the device of resources."""
        return self.requested, self.assigned, self.resource

    def allows(self, device: Device) -> bool:
        """Return whether a device is among the candidates."""
        if self._names is None:
            self._names = frozenset(candidate.name for candidate in self.candidates)
        return device.name in self._names

    def with_types(self, types: SupportedTypes) -> Constraints:
        return Constraints(*self.specs, types)

    def fixed_to(self, device: Device) -> Constraints:
        """Return the constraints after a member of the group was placed (6.4).

        There are no candidates if the member was assigned to a device of a type that the group does not support.
        """
        if self.fixed is None:
            self.fixed = {}
        found = self.fixed.get(device.name)
        if found is None:
            found = self.fixed[device.name] = self._fix(device)
        return found

    def _fix(self, device: Device) -> Constraints:
        spec = device.spec
        # after soft placement the chosen device may contradict the request and the resource: it replaces both (6.4)
        resource = merge_specs(self.resource, spec, override=True)
        requested = merge_specs(self.requested, spec, override=True)
        # the assigned device is merged hard, because no member may leave its device (6.4)
        made = Constraints(requested, merge_specs(self.assigned, spec), resource, self.types, self)
        if device.type == COMPOSITE or any(device.type == device_type for device_type, _ in self.types):
            made.candidates = (device,)
        # fixing the group again, for its next member, changes nothing
        made.fixed = {device.name: made}
        return made

    def describe(self) -> str:
        """Return TensorFlow's debug text for the root of a group. As in TensorFlow, the closing parenthesis is missing."""
        types = ", ".join(device_type for device_type, _ in self.types)
        return (
            f"Member(assigned_device_name_index_=-1 requested_device_name_='{self.requested}' "
            f"assigned_device_name_='{self.assigned}' resource_device_name_='{self.resource}' "
            f"supported_device_types_=[{types}] possible_devices_=[]"
        )


def merge_constraints(mine: Constraints, theirs: Constraints, soft: bool, type_order: Sequence[str]) -> Constraints:
    """Return the constraints of two groups that are joined; `types` is empty if the groups have no common type.

    Raises MergeConflict if their devices contradict each other (5.4).
    """
    if mine is theirs:
        return mine
    # graphs repeat the same pairs thousands of times, and shared results keep later comparisons cheap
    if theirs.merged is not None and theirs.merged[0] is mine:
        return theirs.merged[1]
    # TensorFlow's order: the first conflict determines the message (5.4.3)
    assigned = merge_specs(mine.assigned, theirs.assigned)
    resource = merge_specs(mine.resource, theirs.resource)
    requested = merge_specs(mine.requested, theirs.requested, soft)
    if assigned != ANY or resource != ANY:
        # the search for devices looks at the request alone, so it must imply the other two (5.1)
        requested = requested.specialised_by(assigned).specialised_by(resource)
    types = intersect_types(mine.types, theirs.types, type_order)
    specs = requested, assigned, resource
    equal = (found for found in (mine, theirs) if found.types == types and found.specs == specs)
    result = next(equal, None) or Constraints(*specs, types)
    theirs.merged = (mine, result)
    return result


def tie_constraints(mine: Constraints, theirs: Constraints, nested: bool = False) -> Constraints:
    """Return the constraints with which a group joins its source's group: a conflicting request is overridden (5.6).

    With `nested`, two devices conflict unless one is a more specific form of the other.  Raises TieConflict for conflicting
    assigned devices or devices of resources.
    """
    if mine.tied is not None and mine.tied[0] is theirs:
        return mine.tied[1]
    # 1.15 asks that one device be a specification of the other (13.5)
    agree = DeviceName.is_nested_with if nested else DeviceName.is_compatible_with
    for kind, one, two in (("assigned", theirs.assigned, mine.assigned), ("resource", theirs.resource, mine.resource)):
        if not agree(one, two):
            raise TieConflict(kind, one, two)
    result = mine
    if not agree(mine.requested, theirs.requested):
        # the source wins even without soft placement: a variable's request overrides that of an op that refers to it (5.6.2)
        requested = theirs.requested.specialised_by(mine.assigned).specialised_by(mine.resource)
        result = Constraints(requested, mine.assigned, mine.resource, mine.types)
    mine.tied = (theirs, result)
    return result


class TieConflict(Exception):  # never reaches users: it becomes TensorFlow's message
    """Raised when fixed devices of a group and its source conflict; `kind` is "assigned" or "resource"."""

    def __init__(self, kind: str, one: DeviceName, two: DeviceName) -> None:
        super().__init__(kind)
        self.kind = kind
        self.ends = (one, two)


def intersect_types(target: SupportedTypes, other: SupportedTypes, type_order: Sequence[str]) -> SupportedTypes:
    """Return the common types, in an order that respects the kernel priorities of both sides (5.5)."""
    if target == other:
        return target
    mine = sort_types([pair for pair in target if any(pair[0] == t for t, _ in other)], type_order)
    theirs = sort_types([pair for pair in other if any(pair[0] == t for t, _ in target)], type_order)
    # priorities of zero express no preference, so the other side decides (5.5)
    if not any(priority for _, priority in theirs):
        return mine
    if not any(priority for _, priority in mine):
        return theirs
    if [t for t, _ in mine] == [t for t, _ in theirs]:
        return mine
    # both sides have a preference, and they disagree: neither counts (5.5)
    return sort_types([(t, 0) for t, _ in mine], type_order)


def sort_types(types: Sequence[tuple[str, int]], type_order: Sequence[str]) -> SupportedTypes:
    """Sort types by kernel priority, then in the order of the device set; types that it lacks come last."""
    last = len(type_order)
    return tuple(sorted(types, key=lambda pair: (-pair[1], type_order.index(pair[0]) if pair[0] in type_order else last)))


def is_from_composite(theirs: Constraints, mine: Constraints) -> bool:
    """Return whether an edge leads from a composite device to a physical one, which joins no groups (5.6)."""
    if COMPOSITE not in (theirs.requested.type, theirs.assigned.type, theirs.resource.type):
        return False
    return any(
        source.type == COMPOSITE and target.type is not None and target.type != COMPOSITE
        for source, target in zip(theirs.specs, mine.specs, strict=True)
    )


def soften(found: Constraints, step: SoftStep) -> SpecFields:
    """Return the request that remains after a step of soft placement.

    It is never less specific than the assigned device (7.2c).
    """
    job, replica, task, kind, index = found.requested
    fixed, resource = found.assigned, ANY if step == SoftStep.WITHOUT_RESOURCE else found.resource
    # job, replica and task stay: soft placement never leaves the task (7.3)
    if fixed.type is None and resource.type is None:
        kind = None
    if fixed.id is None and resource.id is None:
        index = None
    return job, replica, task, kind, index
