"""The rule that a placement equals an earlier placement, the baseline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from placesim.core.styled_text import StyledText, fill_template
from placesim.inspection.checking.rule import Breach, PolicyRule, RuleParameter, Values
from placesim.inspection.checking.subject import Subject
from placesim.inspection.checking.transfers import name_transfers, place_of_largest
from placesim.inspection.difference import compare
from placesim.inspection.short_device_names import short_device
from placesim.inspection.snapshot import Snapshot


def agrees(subject: Subject, values: Values) -> Iterator[Breach]:
    """Yield the differences from a baseline."""
    baseline: Snapshot = values["file"]
    placed = subject.snapshot
    # a report has the sizes that static shapes determine
    written = placed if placed.static_transfers is None else replace(placed, transfers=placed.static_transfers)
    difference = compare(baseline, written)
    for move in difference.moved:
        node = subject.by_name[move.name]
        places = (move.name, short_device(move.after), short_device(move.before), baseline.name)
        message = fill_template("{} is on {}, but on {} in {}", *places)
        yield Breach(subject.at(node), message, move.name)
    for name in difference.added:
        yield Breach(subject.at(subject.by_name[name]), StyledText(f"{name} is not in {baseline.name}"), name)
    for name in difference.removed:
        yield Breach(subject.snapshot.start, StyledText(f"{name} is missing, but in {baseline.name}"), name)
    for change in difference.transfers:
        message = fill_template("{}, compared with {}", change.text, baseline.name)
        if change.new:
            message = fill_template("{}; new: {}", message, name_transfers(subject, change.new))
        yield Breach(place_of_largest(subject, change.new), message)


RULES = (
    PolicyRule(
        "baseline",
        "Placement and transfers match a report written with `--format json`.",
        agrees,
        (RuleParameter("file", "report", "path of the report, relative to the policy", required=True),),
    ),
)
