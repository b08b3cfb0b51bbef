"""Device names: the syntaxes of `tf.device` and of the runtime, and the relations between parsed names (section 1)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from placesim.core.errors import GraphBuildError

SHORT_TYPES = ("CPU", "GPU", "TPU", "CUSTOM", "EPU")
"""Device types that Python's parser knows without `device:`."""


class DeviceName(NamedTuple):
    """A parsed device name; None marks an unset field."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    type: str | None = None
    id: int | None = None

    def __str__(self) -> str:
        return format_spec(self)

    @property
    def has_details(self) -> bool:
        return self != ANY

    def matches(self, full: DeviceName) -> bool:
        """Return whether every field that is set here has the same value in `full` (1.4.2)."""
        return (
            (self.type is None or self.type == full.type)
            and (self.id is None or self.id == full.id)
            and (self.task is None or self.task == full.task)
            and (self.job is None or self.job == full.job)
            and (self.replica is None or self.replica == full.replica)
        )

    def is_compatible_with(self, other: DeviceName) -> bool:
        """Return whether every field that both names set has the same value in both (1.4.4)."""
        return (
            (self.type is None or other.type is None or self.type == other.type)
            and (self.id is None or other.id is None or self.id == other.id)
            and (self.task is None or other.task is None or self.task == other.task)
            and (self.job is None or other.job is None or self.job == other.job)
            and (self.replica is None or other.replica is None or self.replica == other.replica)
        )

    def is_nested_with(self, other: DeviceName) -> bool:
        """Return whether at least one of the names sets every field that the other sets, to the same values (1.4.3)."""
        return self.matches(other) or other.matches(self)

    def specialised_by(self, less: DeviceName) -> DeviceName:
        """Return this name with each field that `less` sets replaced by the value in `less` (1.4.5)."""
        if less in (ANY, self):
            return self
        set_there = {field: value for field, value in less._asdict().items() if value is not None}
        return self._replace(**set_there) if set_there else self

    @property
    def address_space(self) -> DeviceName:
        return DeviceName(self.job, self.replica, self.task)

    def in_different_address_space(self, other: DeviceName) -> bool:
        """Return whether job, replica or task is set in both names with different values (1.4.6)."""
        return any(None not in pair and pair[0] != pair[1] for pair in zip(self[:3], other[:3], strict=True))


ANY = DeviceName()


class MergeConflict(ValueError):
    """Error for two names that cannot be merged; its text is TensorFlow's."""


@lru_cache(maxsize=65536)
def format_spec(spec: DeviceName) -> str:
    """Return the canonical text of a name (1.1.2).  An id without a type is left out; a type without an id becomes `TYPE:*`."""
    text = "" if spec.job is None else f"/job:{spec.job}"
    if spec.replica is not None:
        text += f"/replica:{spec.replica}"
    if spec.task is not None:
        text += f"/task:{spec.task}"
    if spec.type is not None:
        text += f"/device:{spec.type}:{'*' if spec.id is None else spec.id}"
    return text


_COMPONENT = re.compile(
    r"/job:(?:(?P<job>[A-Za-z][A-Za-z0-9_]*)(?=/|$)|\*)"
    r"|/replica:(?:(?P<replica>[0-9]+)|\*)"
    r"|/task:(?:(?P<task>[0-9]+)|\*)"
    r"|/device:(?:(?P<type>[A-Za-z][A-Za-z0-9_]*)(?=[:/]|$)|\*)(?::(?:(?P<id>[0-9]+)|\*))?"
    r"|/(?P<short>cpu|CPU|gpu|GPU):(?:(?P<short_id>[0-9]+)|\*)"
)
_FULL_NAME = re.compile(
    r"/job:([A-Za-z][A-Za-z0-9_]*)/replica:([0-9]{1,9})/task:([0-9]{1,9})/device:([A-Za-z][A-Za-z0-9_]*):([0-9]{1,9})"
)


@lru_cache(maxsize=65536)
def parse_runtime_name(text: str) -> DeviceName | None:
    """Parse a device string like the C++ runtime (1.2).  Return None for a malformed string."""
    if text in ("", "/"):
        return ANY
    full = _FULL_NAME.fullmatch(text)
    if full is not None:
        job_name, replica_id, task_id, type_name, device_id = full.groups()
        return DeviceName(job_name, int(replica_id), int(task_id), type_name, int(device_id))
    job = replica = task = kind = index = None
    position = 0
    while position < len(text):
        found = _COMPONENT.match(text, position)
        if found is None or any(_is_beyond(found[group]) for group in _NUMBERS):
            return None
        position = found.end()
        component = text[found.start() + 1 : found.start() + 4]
        if component == "job":
            job = found["job"]
        elif component == "rep":
            replica = _int(found["replica"])
        elif component == "tas":
            task = _int(found["task"])
        elif component == "dev":
            kind, index = found["type"], _int(found["id"])
        else:
            kind, index = found["short"].upper(), _int(found["short_id"])
    return DeviceName(job, replica, task, kind, index)


_NUMBERS = ("replica", "task", "id", "short_id")
_MOST_DIGITS = len(str(1 << 64))


def _is_beyond(digits: str | None) -> bool:
    """Return whether a number does not fit into 64 bits, so that the runtime rejects it."""
    if digits is None:
        return False
    significant = digits.lstrip("0")
    return len(significant) > _MOST_DIGITS or int(significant or "0") >= 1 << 64


def _int(digits: str | None) -> int | None:
    """Return the lowest 32 bits of a number as a signed integer, as the runtime stores it."""
    if digits is None:
        return None
    kept = int(digits.lstrip("0") or "0") & 0xFFFFFFFF
    return kept - (1 << 32) if kept >> 31 else kept


@lru_cache(maxsize=65536)
def parse_python_spec(text: str) -> DeviceName:
    """Parse a string like `tf.device` (1.3).  Raises GraphBuildError with TensorFlow's message for an invalid string."""
    fields: dict[str, str | int | None] = {}
    for piece in text.split("/"):
        parts = piece.split(":")
        head = parts[0]
        if piece == "":
            continue
        if len(parts) == 2 and head == "job":
            fields["job"] = parts[1]
        elif len(parts) == 2 and head in ("replica", "task"):
            fields[head] = _python_int(parts[1])
        elif len(parts) <= 2 and head.upper() in SHORT_TYPES:
            _set_type(fields, text, head.upper(), parts[1] if len(parts) == 2 else "*")
        elif len(parts) == 3 and head == "device":
            kind = parts[1].upper() if parts[1] in ("cpu", "gpu") else parts[1]
            _set_type(fields, text, kind, parts[2])
        else:
            raise GraphBuildError(f"Unknown attribute '{head}' is encountered while parsing the device spec: '{text}'.")
    return DeviceName(**fields)  # type: ignore[arg-type]


def _set_type(fields: dict[str, str | int | None], text: str, kind: str, index: str) -> None:
    if "type" in fields:
        raise GraphBuildError(f"Multiple device types are not allowed while parsing the device spec: {text}.")
    fields["type"] = kind
    fields["id"] = None if index == "*" else _python_int(index)


def _python_int(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise GraphBuildError(str(error)) from None


_TYPE_FIELD = DeviceName._fields.index("type")


def merge_specs(target: DeviceName, other: DeviceName, soft: bool = False, override: bool = False) -> DeviceName:
    """Return `target` merged with `other` (1.4.7).

    `soft` drops a conflicting type or id; `override` takes it from `other` (1.4.8).  Raises MergeConflict with TensorFlow's
    text, which shows the target as merged so far.
    """
    if target == other or other == ANY:
        return target
    merged = list(target)
    for at, plural in enumerate(("jobs", "replicas", "tasks", "types", "ids")):
        mine, theirs = merged[at], other[at]
        can_give_way = at >= _TYPE_FIELD
        if theirs is None or mine == theirs:
            continue
        if mine is None or (can_give_way and override):
            merged[at] = theirs
        elif can_give_way and soft:
            return DeviceName(*merged[:at])  # type: ignore[arg-type]
        else:
            so_far = DeviceName(*merged)  # type: ignore[arg-type]
            raise MergeConflict(f"Cannot merge devices with incompatible {plural}: '{so_far}' and '{other}'")
    return DeviceName(*merged)  # type: ignore[arg-type]


def enclose(inner: DeviceName, outer: DeviceName) -> DeviceName:
    """Put a device scope around a request: fields of `inner` win, and `outer` fills the rest (2.1.2)."""
    return outer.specialised_by(inner)
