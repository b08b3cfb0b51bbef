"""All-reduces of published rows, as rings of transfers on links: `all_reduce_seconds` and the rows that say which links.

NCCL passes a part on while it arrives.  MPI copies each part to the host, sends it, and copies it to the GPU, one after the
other; Baidu's loop also waits for its own send before it begins the next step.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from placesim.machine.links import LATENCIES, PCIE_BYTES_PER_LANE
from placesim.machine.timelines.bandwidth_sharing import Link
from placesim.machine.timelines.event_simulation import simulate
from placesim.machine.timelines.workload import LinkTransfer, Task
from tests.benchmarks.scaling import PCIE_SHARE
from tests.benchmarks.timing_rows import LAUNCHES, read_table

GPUS_OF_HOST = 8
_PCIE = 16 * PCIE_BYTES_PER_LANE[3] * PCIE_SHARE
_NETWORK_SHARE = 0.6
"""Share of the line rate that a hop between hosts reaches through MPI: 0.58 on M40 and Titan X, 0.55 to 0.8 on Xeon Phi."""
_FDR, _EDR, _OMNI_PATH = (line * 64 / 66 / 8 * _NETWORK_SHARE for line in (56e9, 100e9, 100e9))
_NETWORK_SECONDS = 2e-6
"""Of InfiniBand and Omni-Path, one message: the makers' 1 to 2 us."""


_NCCL_SECONDS = 8.4e-6
"""What NCCL counts for each call beside its hops (`baseLat` of a ring in its `tuning.cc`)."""


Passing = Literal["pipelined", "copied", "waiting"]
"""How a library passes a part on; see the module."""
_PASSING: dict[str, Passing] = {"OSU": "copied", "Baidu": "waiting"}


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
        library = row["algorithm"].split()[0]
        seconds = all_reduce_seconds(ranks, float(row["bytes"]), fabric, _PASSING.get(library, "pipelined"))
        if fabric.has_gpus:
            seconds += LAUNCHES["DeepBench train"] + (_NCCL_SECONDS if library == "NCCL" else 0.0)
        yield CollectiveTime(row["device"], row["algorithm"], ranks, float(row["ms"]) * 1e-3, seconds)


def all_reduce_seconds(ranks: int, num_bytes: float, fabric: Fabric, passing: Passing = "pipelined") -> float:
    """A ring: each rank sends a part of the bytes to the next, 2 (ranks - 1) times, once it has that of the rank before."""
    is_pipelined = passing == "pipelined"
    links: list[Link] = []
    hops = []
    for rank in range(ranks):
        legs = list(_legs(rank, (rank + 1) % ranks, fabric, is_pipelined=is_pipelined))
        numbers = range(len(links), len(links) + len(legs))
        hops.append([tuple(numbers)] if is_pipelined else [(number,) for number in numbers])
        links += legs
    part = num_bytes / ranks
    tasks: list[Task | LinkTransfer] = []
    sent: list[tuple[int, ...]] = [()] * ranks
    for _ in range(2 * (ranks - 1)):
        before = sent
        sent = []
        for rank in range(ranks):
            # the adding up is nothing beside the links
            inputs = (*before[rank - 1], *before[rank]) if passing == "waiting" else before[rank - 1]
            for route in hops[rank]:
                tasks.append(LinkTransfer(part, route, inputs))
                inputs = (len(tasks) - 1,)
            sent.append(inputs)
    return simulate(tasks, (), links).seconds


def _legs(rank: int, after: int, fabric: Fabric, *, is_pipelined: bool) -> Iterator[Link]:
    """The links between two ranks; a GPU's own link in each direction where the bytes stop in a host's memory."""
    is_local = fabric.has_gpus and rank // GPUS_OF_HOST == after // GPUS_OF_HOST
    if fabric.has_gpus and (not is_pipelined or fabric.is_staged):
        bandwidth = _PCIE / 2 if is_pipelined else _PCIE
        yield Link(f"{rank} to host", bandwidth, LATENCIES["pcie"])
        yield Link(f"host to {after}", bandwidth, LATENCIES["pcie"])
    elif fabric.has_gpus:
        yield Link(f"{rank} to {after}", _PCIE, LATENCIES["pcie"])
    if not is_local:
        yield Link(f"network {rank}", fabric.network, _NETWORK_SECONDS)
