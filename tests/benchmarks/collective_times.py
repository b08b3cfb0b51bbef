"""All-reduces of published rows, as rings of transfers on links: `all_reduce_seconds` and the rows that say which links."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from placesim.machine.links import LATENCIES, PCIE_BYTES_PER_LANE
from placesim.machine.timelines.bandwidth_sharing import Link
from placesim.machine.timelines.event_simulation import simulate
from placesim.machine.timelines.workload import LinkTransfer, Task
from tests.benchmarks.scaling import PCIE_SHARE
from tests.benchmarks.timing_rows import read_table

GPUS_OF_HOST = 8
_PCIE = 16 * PCIE_BYTES_PER_LANE[3] * PCIE_SHARE
_NETWORK_SHARE = 0.6
"""Share of the line rate that a hop between hosts reaches through MPI: 0.58 on M40 and Titan X, 0.55 to 0.8 on Xeon Phi."""
_FDR, _EDR, _OMNI_PATH = (line * 64 / 66 / 8 * _NETWORK_SHARE for line in (56e9, 100e9, 100e9))
_NETWORK_SECONDS = 2e-6
"""Of InfiniBand and Omni-Path, one message: the makers' 1 to 2 us."""


class Fabric(NamedTuple):
    """What joins the ranks: `is_staged` where GPUs reach each other through their host's memory, bytes passing PCIe twice."""

    network: float
    is_staged: bool = False
    has_gpus: bool = True


_FABRICS = {
    # DeepBench names Omni-Path; version 2.34.5000 of the other notes is an FDR InfiniBand card's
    "Intel Xeon Phi 7250": Fabric(_OMNI_PATH, has_gpus=False),
    "Tesla M40": Fabric(_FDR, is_staged=True),
    "Titan X (Maxwell)": Fabric(_FDR, is_staged=True),
    "Tesla P100": Fabric(_FDR, is_staged=True),
}
_USUAL = Fabric(_EDR)
"""GPUs of Baidu's three older machines are no peers: two ranks in one host get half of a link.  All others are taken to be."""


class CollectiveTime(NamedTuple):
    """A row: device, library and ranks, the measured and the predicted seconds."""

    device: str
    algorithm: str
    ranks: int
    measured: float
    seconds: float


def predict_collectives(path: Path) -> Iterator[CollectiveTime]:
    """Each all-reduce of the table."""
    for row in read_table(path):
        ranks, fabric = int(row["ranks"]), _FABRICS.get(row["device"], _USUAL)
        seconds = all_reduce_seconds(ranks, float(row["bytes"]), fabric)
        yield CollectiveTime(row["device"], row["algorithm"], ranks, float(row["ms"]) * 1e-3, seconds)


def all_reduce_seconds(ranks: int, num_bytes: float, fabric: Fabric) -> float:
    """A ring: each rank sends a part of the bytes to the next, 2 (ranks - 1) times, once it has that of the rank before."""
    links: list[Link] = []
    routes = []
    for rank in range(ranks):
        after = (rank + 1) % ranks
        is_local = fabric.has_gpus and rank // GPUS_OF_HOST == after // GPUS_OF_HOST
        pcie = _PCIE / (2 if fabric.is_staged else 1)
        ends = [Link(f"{rank} to {after}", pcie, LATENCIES["pcie"])] if fabric.has_gpus else []
        hop = ends if is_local else [*ends, Link(f"network {rank}", fabric.network, _NETWORK_SECONDS)]
        routes.append(tuple(range(len(links), len(links) + len(hop))))
        links += hop
    part = num_bytes / ranks
    tasks: list[Task | LinkTransfer] = []
    for step in range(2 * (ranks - 1)):
        for rank in range(ranks):
            before = (step - 1) * ranks + (rank - 1) % ranks
            # the adding up is nothing beside the links
            tasks.append(LinkTransfer(part, routes[rank], (before,) if step else ()))
    return simulate(tasks, (), links).seconds
