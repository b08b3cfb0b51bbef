"""Definition of a rule: a name, parameters, and the function that finds violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from placesim.core.errors import Location
from placesim.core.styled_text import StyledText
from placesim.inspection.checking.subject import Subject

Values = Mapping[str, Any]
"""Values of a rule's parameters, by name, with defaults for missing parameters."""


class Breach(NamedTuple):
    """A violation of a rule: its place and description. `node` is set if it concerns one node.

    Without a `location`, the finding is at the rule's place in the policy.
    """

    location: Location | None
    message: StyledText
    node: str | None = None


Check = Callable[[Subject, Values], Iterator[Breach]]


class RuleParameter(NamedTuple):
    """A parameter of a rule. `kind` selects its reader (`policy.READERS`). The first parameter may be given without a name."""

    name: str
    kind: str
    help: str
    default: Any = None
    required: bool = False


class PolicyRule(NamedTuple):
    """A rule. `needs_graph` says that the rule needs information which a written report lacks.

    `needs_memory` and `needs_time` say that the rule needs a dry run of the steps; `needs_sizes`, that it needs one if static
    shapes leave sizes of transfers open.
    """

    name: str
    help: str
    check: Check
    parameters: tuple[RuleParameter, ...] = ()
    needs_graph: bool = False
    needs_memory: bool = False
    needs_time: bool = False
    needs_sizes: bool = False


EXCEPT = RuleParameter("except", "patterns", "nodes to exclude", ())
NODES = RuleParameter("nodes", "patterns", "names, patterns or scopes (`a/`: the node `a` and all nodes in the scope)", ())
OPS = RuleParameter("ops", "words", "op types", ())
DEVICE = RuleParameter("device", "device", "a device, such as `GPU:0`, `/gpu:*` or `/job:ps`", required=True)
UNKNOWN = RuleParameter(
    "unknown", "bytes", "bytes to count for a tensor of unknown size; without it, such tensors are findings"
)
FROM = RuleParameter("from", "device", "only from these devices")
TO = RuleParameter("to", "device", "only to these devices")
