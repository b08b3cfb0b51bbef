"""The rules that a placement can be held to: a table, each with what it can be told and the function that checks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from placesim.errors import Location, UsageError
from placesim.inspection.checking.checks import (
    Subject,
    Values,
    agrees,
    apart,
    balance,
    ignored_colocations,
    memory,
    not_on_device,
    on_device,
    overridden_requests,
    soft_fallbacks,
    together,
    transfer_bytes,
    transfer_count,
    variables_with_consumers,
)
from placesim.inspection.checking.findings import Finding
from placesim.inspection.patterns import matcher
from placesim.inspection.snapshot import Snapshot

Check = Callable[[Subject, Values], Iterator[Finding]]


class Parameter(NamedTuple):
    """What a rule is told: `kind` says how it is read (see `policy.READERS`); a rule's first may be given alone."""

    name: str
    kind: str
    help: str
    default: Any = None
    required: bool = False


class Rule(NamedTuple):
    """A rule: `needs_graph` where a written report does not hold enough for it."""

    name: str
    help: str
    check: Check
    parameters: tuple[Parameter, ...] = ()
    needs_graph: bool = False


# --- the table ------------------------------------------------------------------------------------------------------

_EXCEPT = Parameter("except", "patterns", "nodes that may", ())
_NODES = Parameter("nodes", "patterns", "names, patterns or scopes (`a/`)", ())
_OPS = Parameter("ops", "words", "op types", ())
_ENDS = (
    Parameter("from", "device", "only from these devices"),
    Parameter("to", "device", "only to these devices"),
)

_ROWS = (
    Rule("no-soft-fallback", "No node is elsewhere than it asked to be because of soft placement.", soft_fallbacks, (_EXCEPT,)),
    Rule(
        "no-overridden-request",
        "No node's request lost against a reference or resource edge.",
        overridden_requests,
        (_EXCEPT,),
    ),
    Rule(
        "no-ignored-colocation",
        "Soft placement passed over no colocation label.",
        ignored_colocations,
        (_EXCEPT,),
        needs_graph=True,
    ),
    Rule(
        "max-transfers",
        "At most so many tensors are copied between devices.",
        transfer_count,
        (Parameter("count", "count", "how many", required=True), *_ENDS),
    ),
    Rule(
        "max-transfer-bytes",
        "At most so many bytes are copied between devices.",
        transfer_bytes,
        (
            Parameter("bytes", "bytes", "how many, with a unit if you like (4MiB)", required=True),
            *_ENDS,
            Parameter("unknown", "bytes", "what a tensor of unknown size counts as", 0),
        ),
    ),
    Rule(
        "on-device",
        "These nodes must be on such a device.",
        on_device,
        (Parameter("device", "device", "`GPU:0`, `/gpu:*`, `/job:ps`", required=True), _OPS, _NODES),
    ),
    Rule(
        "not-on-device",
        "These nodes must not be on such a device.",
        not_on_device,
        (Parameter("device", "device", "`GPU:0`, `/gpu:*`, `/job:ps`", required=True), _OPS, _NODES),
    ),
    Rule("together", "All these nodes are on one device.", together, (_NODES._replace(required=True),)),
    Rule(
        "apart",
        "No device has nodes of two of these patterns.",
        apart,
        (_NODES._replace(required=True),),
    ),
    Rule(
        "variables-with-consumers",
        "A variable and all that reads it are on one device.",
        variables_with_consumers,
        (_NODES._replace(help="which variables", default=("*",)),),
        needs_graph=True,
    ),
    Rule(
        "balance",
        "The devices of a type have alike much to do.",
        balance,
        (
            Parameter("of", "measure", "`nodes`, `bytes` (of variables and constants) or `operations`", "nodes"),
            Parameter("type", "text", "the device type", "GPU"),
            Parameter("within", "fraction", "how far from the mean a device may be (0.1)", 0.1),
        ),
        needs_graph=True,
    ),
    Rule(
        "max-memory",
        "The variables and constants of a device take at most so many bytes.",
        memory,
        (
            Parameter("bytes", "bytes", "how many, with a unit if you like (1GiB)", required=True),
            Parameter("device", "device", "only of these devices"),
        ),
        needs_graph=True,
    ),
    Rule(
        "baseline",
        "The placement and the transfers are those of a report that `--format json` wrote.",
        agrees,
        (Parameter("file", "report", "the report's path, as seen from the policy", required=True),),
    ),
)
RULES = {rule.name: rule for rule in _ROWS}


class RuleUse(NamedTuple):
    """A rule with what it was told; `location` is its place in the policy, None for one of the command line."""

    rule: Rule
    values: Values
    location: Location | None = None


def check_snapshot(snapshot: Snapshot, uses: Sequence[RuleUse]) -> tuple[Finding, ...]:
    """All findings, in the order of the rules; an error of the placement comes first.

    Raises UsageError for a rule that a written report does not hold enough for.
    """
    if snapshot.error is not None:
        return (Finding(_error_place(snapshot), "placeable", snapshot.error.summary, snapshot.error.node),)
    subject = Subject(snapshot)
    found: list[Finding] = []
    for rule, values, location in uses:
        if rule.needs_graph and snapshot.live is None:
            raise UsageError(
                f"rule {rule.name} needs the graph: got the report {snapshot.name}, which does not hold enough for it"
            )
        found += rule.check(subject, values)
        found += _unmatched(snapshot, rule, values, location or snapshot.start)
    return tuple(dict.fromkeys(found))


def _unmatched(snapshot: Snapshot, rule: Rule, values: Values, location: Location) -> Iterator[Finding]:
    """A pattern that no node matches guards nothing: it is a finding, at the policy's line."""
    for pattern in values.get("nodes", ()):
        if pattern != "*" and not any(map(matcher([pattern]), (node.name for node in snapshot.nodes))):
            yield Finding(location, rule.name, f"no node matches '{pattern}'")


def _error_place(snapshot: Snapshot) -> Location:
    text = snapshot.error.location if snapshot.error is not None else None
    file, line, column = text.rsplit(":", 2) if text and text.count(":") >= 2 else ("", "", "")
    return Location(file, int(line), int(column)) if line.isdigit() and column.isdigit() else snapshot.start
