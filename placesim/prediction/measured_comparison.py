"""Records of the comparison of a predicted step with measured steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MEASURED, PREDICTED = "measured", "predicted"
ADDED, MOVED, LAUNCHED = "not in the graph", "transfer without a prediction", "launch whose GPU kernels were not recorded"
ABSENT, NO_COPY, STARTED = "not recorded", "transfer that was not recorded", "start of a transfer"
"""Reasons why nodes are unmatched."""


class ComparedNode(NamedTuple):
    """A node or transfer: its predicted seconds with their interval, and the median of the measured seconds of a step.

    `op` is the measured op. `replaced` has the other nodes of the graph that the measured node replaces.
    """

    node: str
    op: str
    device: str
    predicted: float
    low: float
    high: float
    measured: float
    replaced: tuple[str, ...] = ()


class ComparedOp(NamedTuple):
    """The total of all compared nodes of an op."""

    op: str
    nodes: int
    predicted: float
    measured: float


class UnmatchedNodes(NamedTuple):
    """Nodes that only the measurement or only the prediction has (`side`), and the reason.

    `names` has the nodes with the longest times.
    """

    side: str
    reason: str
    nodes: int
    seconds: float
    names: tuple[str, ...]


@dataclass(frozen=True)
class MeasuredComparison:
    """A predicted step beside the median of `steps` measured steps, both in seconds.

    `node_seconds` is the measured time of all nodes and copies, including those without a prediction.
    """

    format: str
    steps: int
    predicted: float
    measured: float
    node_seconds: float
    nodes: tuple[ComparedNode, ...]
    unmatched: tuple[UnmatchedNodes, ...]

    @property
    def matched_share(self) -> float:
        """The share of `node_seconds` in nodes and copies with a prediction."""
        matched = sum(node.measured for node in self.nodes)
        return matched / self.node_seconds if matched < self.node_seconds else 1.0  # sums in another order round otherwise

    @property
    def ops(self) -> list[ComparedOp]:
        """The compared nodes by op, the longest measured first."""
        found: dict[str, list[ComparedNode]] = {}
        for node in self.nodes:
            found.setdefault(node.op, []).append(node)
        rows = [
            ComparedOp(op, len(own), sum(node.predicted for node in own), sum(node.measured for node in own))
            for op, own in found.items()
        ]
        return sorted(rows, key=lambda row: (-row.measured, row.op))
