"""The rules of `check`, and the search for violations.

The rules are in tables, at the end of the module of each family of rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from placesim.core.errors import Location, UsageError
from placesim.core.styled_text import StyledText, device, fill_template, list_words
from placesim.inspection.checking import agreement, load, places, requests, timing, transfers
from placesim.inspection.checking.findings import PLACEABLE, Finding
from placesim.inspection.checking.rule import Breach, PolicyRule, Values
from placesim.inspection.checking.subject import Subject
from placesim.inspection.short_device_names import short_names
from placesim.inspection.snapshot import Snapshot, body_failure

_FAMILIES = (requests, transfers, places, load, timing, agreement)
RULES = {rule.name: rule for family in _FAMILIES for rule in family.RULES}
"""Rules by name, in the order in which `check --rules` lists them."""


MAX_NAMED = 8
"""Maximum number of device names in a message that lists the devices of the machine."""


class RuleUse(NamedTuple):
    """A rule with the values of its parameters. `location` is its place in the policy; None for the command line."""

    rule: PolicyRule
    values: Values
    location: Location | None = None


def check_snapshot(snapshot: Snapshot, uses: Sequence[RuleUse]) -> tuple[Finding, ...]:
    """Return all findings, in the order of the rules; an error of the placement comes first.

    Raises UsageError for a rule that needs more information than a written report has.
    """
    if snapshot.error is not None:
        return (Finding(_error_place(snapshot), PLACEABLE, snapshot.error.summary, snapshot.error.node),)
    subject = Subject(snapshot)
    found = list(_unplaceable_bodies(snapshot))
    for rule, values, location in uses:
        if rule.needs_graph and snapshot.live is None:
            raise UsageError(f"rule {rule.name} needs the graph: got the report {snapshot.name}, expected a graph")
        place = location or snapshot.start
        breaches = [*rule.check(subject, values), *_unmatched(subject, values), *_unmet_devices(snapshot, rule, values)]
        found += (Finding(breach.location or place, rule.name, breach.message, breach.node) for breach in breaches)
    return tuple(dict.fromkeys(found))


def _unplaceable_bodies(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for each body that can't be placed when it is called."""
    for body in snapshot.bodies.bodies:
        if body.error is not None:
            place = body.error.location or next((n.location for n in snapshot.nodes if n.name == body.call), None)
            node = None if body.error.node is None else body.path_of(body.error.node)
            yield Finding(place or snapshot.start, PLACEABLE, StyledText(body_failure(body)), node)


def _unmatched(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield a violation for each pattern that no node matches, since a rule without nodes checks nothing."""
    for pattern in values.get("nodes", ()):
        if pattern != "*" and not any(map(subject.matcher([pattern]), subject.snapshot.nodes)):
            yield Breach(None, StyledText(f"no node matches '{pattern}'"))


def _unmet_devices(snapshot: Snapshot, rule: PolicyRule, values: Values) -> Iterator[Breach]:
    """Yield a violation for each device type, and each device of an optional parameter, that the machine lacks."""
    specs = {device.name: device.spec for device in snapshot.devices}
    known = list_words(short_names(list(specs)), MAX_NAMED) or "none"
    for parameter in rule.parameters:
        spec = values[parameter.name]
        if parameter.kind == "device" and not parameter.required and spec is not None:
            if not any(map(spec.matches, specs.values())):
                yield Breach(None, fill_template("no device matches {}: the machine has {}", device(spec), known))
        elif parameter.kind == "device type" and not any(device.type == spec for device in snapshot.devices):
            yield Breach(None, fill_template("no device is of type '{}': the machine has {}", spec, known))


def _error_place(snapshot: Snapshot) -> Location:
    text = snapshot.error.location if snapshot.error is not None else None
    file, line, column = text.rsplit(":", 2) if text and text.count(":") >= 2 else ("", "", "")
    return Location(file, int(line), int(column)) if line.isdigit() and column.isdigit() else snapshot.start
