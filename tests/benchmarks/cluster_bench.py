"""What a cluster costs and what it gives, against one process in the same run.

`python -m tests.benchmarks.cluster_bench` prints ratios: a training step of AlexNet's two towers with a worker for each GPU, a
step of two tiny ops, a tensor that crosses between workers, a turn of a loop that does so four times, and 100 MB from worker to
worker against Dask's own transfer of one array.  AlexNet was trained on 128 images a step; with 16 most of a step is the
weights: 26 million, which one worker updates.  Times are the least of several, since other programs only add to them; that of
the 100 MB is a median.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Feed, Fetch, GeneratedFeed, GraphFile, GraphStep
from placesim.machine.inventory import Device, TaskInventory, build_devices
from placesim.runtime.cluster.cluster_setup import Cluster, open_cluster
from placesim.runtime.cluster.connection_settings import Connection
from placesim.runtime.dask.session import DaskSession
from placesim.runtime.recording.kernel_timing import Measurements, rows
from placesim.runtime.sessions.session import GraphSession

GRAPHS = Path(__file__).parent.parent.parent / "graphs"
ONE_THREAD = Config(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, allow_soft_placement=True)
MANY_BYTES = 100_000_000


def seconds_of(run: Callable[[], object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@contextmanager
def both(
    file: GraphFile, devices: tuple[Device, ...], per: str = "device"
) -> Iterator[tuple[GraphSession, DaskSession, Cluster]]:
    """A session in this process, and one on workers of its own; GPUs have one each, the CPU lives with the first."""
    gpus = [device.name for device in devices if device.type == "GPU"]
    with open_cluster(Connection(per=per), gpus) as cluster:
        homes = {device.name: cluster.homes.get(device.name, cluster.homes[gpus[0]]) for device in devices}
        here = GraphSession(file.graph, devices, ONE_THREAD, initial_values=file.initial_values)
        settled = Cluster(cluster.client, cluster.scheduler, cluster.offers, cluster.is_own, homes, cluster.names)
        there = DaskSession(file.graph, devices, ONE_THREAD, cluster=settled, initial_values=file.initial_values)
        yield here, there, cluster
        here.close()
        there.close()


def in_turns(here: GraphSession, there: GraphSession, step: GraphStep, times: int) -> tuple[float, float]:
    """The least seconds of a step in either, measured in turns, after a first of each."""
    here.run(step)
    there.run(step)
    rows = [(seconds_of(lambda: here.run(step)), seconds_of(lambda: there.run(step))) for _ in range(times)]
    return min(row[0] for row in rows), min(row[1] for row in rows)


def processor_shares(here: GraphSession, there: GraphSession, cluster: Cluster, step: GraphStep, times: int) -> list[float]:
    """Of the processor time of a step in this process, what each worker takes: other programs do not add to it."""
    start = time.process_time()
    for _ in range(times):
        here.run(step)
    alone = time.process_time() - start
    before = cluster.client.run(time.process_time)
    for _ in range(times):
        there.run(step)
    return [(after - before[address]) / alone for address, after in cluster.client.run(time.process_time).items()]


def training_towers(images: int) -> GraphFile:
    """`graphs/alexnet.yaml` as a training step: each tower has a loss and its gradients, which the CPUs apply."""
    document = yaml.safe_load((GRAPHS / "alexnet.yaml").read_text())
    nodes = document["nodes"]
    first = next(i for i, entry in enumerate(nodes) if entry.get("name") == "images")
    tower = next(entry["nodes"] for entry in nodes if entry.get("scope") == "tower")
    ends = [
        {"op": "SparseSoftmaxCrossEntropyWithLogits", "name": "cross_entropy", "inputs": ["fc8_biased", "answers"]},
        {"op": "Mean", "name": "loss", "id": "tower_loss", "inputs": ["cross_entropy", [0]]},
        {"gradients": {"of": "loss"}, "id": "slopes"},
    ]
    halves = [{"id": name, "op": "Identity", "inputs": [f"{name}_shards:{{i}}"]} for name in ("batch", "answers")]
    document["nodes"] = [
        *nodes[:first],
        {"op": "Placeholder", "name": "images", "dtype": "float", "shape": [images, 67, 67, 3]},
        {"op": "Placeholder", "name": "labels", "dtype": "int32", "shape": [images]},
        *(
            {"op": "Split", "name": f"{name}_shards", "inputs": [0, whole], "attrs": {"num_split": 2}, "device": "/cpu:0"}
            for name, whole in (("batch", "images"), ("answers", "labels"))
        ),
        {"scope": "tower", "device": ["/gpu:0", "/gpu:1"], "nodes": [*halves, *tower, *ends]},
        {"train": {"apply": "slopes", "optimizer": {"GradientDescent": {"learning_rate": 0.001}}}, "name": "train"},
    ]
    document["run"] = document["run"][:2]
    return graph_file_from_mapping(document)


def measure_towers(images: int) -> None:
    """A training step of AlexNet, whose two towers are on two GPUs."""
    file = training_towers(images)
    feeds = (Feed("images", GeneratedFeed("random_normal", (images, 67, 67, 3), seed=7)), Feed("labels", [0] * images))
    devices = tuple(build_devices([TaskInventory(cpu=3, gpu=2)]))
    with both(file, devices) as (here, there, cluster):
        for step in file.steps or ():
            here.run(step)
            there.run(step)
        train = GraphStep((Fetch("train"),), feeds)
        one, two = in_turns(here, there, train, 15)
        shares = processor_shares(here, there, cluster, train, 8)
    bound = fullest_share(file, devices, there.homes, train)
    print(
        f"AlexNet's towers, a training step of {images} images: one process {one:.2f} s, a worker a GPU {two:.2f} s, "
        f"ratio {two / one:.2f}; in processor time {' and '.join(f'{share:.2f}' for share in shares)}; "
        f"one worker's nodes are {bound:.2f} of the work"
    )


def fullest_share(file: GraphFile, devices: tuple[Device, ...], homes: Mapping[str, str], step: GraphStep) -> float:
    """Of a step's time in kernels the part of the worker with the most to do: no order of its nodes can beat it."""
    measured = Measurements()
    session = GraphSession(file.graph, devices, ONE_THREAD, initial_values=file.initial_values, measurements=measured)
    for first in (*(file.steps or ()), step):
        session.run(first)
    del measured.runs[:]
    session.run(step)
    session.close()
    seconds: Counter[str] = Counter()
    for number, start, end, _ in rows(measured.runs, 4):
        seconds[homes[measured.nodes[number].device]] += end - start
    return max(seconds.values()) / seconds.total()


def measure_tiny() -> None:
    """A step of an op on each of two workers."""
    nodes: list[Any] = [
        {"op": "Const", "name": "one", "value": 1.0, "device": "/gpu:0"},
        {"op": "Neg", "name": "two", "inputs": ["one"], "device": "/gpu:1"},
    ]
    with both(graph_file_from_mapping({"nodes": nodes}), tuple(build_devices([TaskInventory(gpu=2)]))) as (here, there, _):
        one, two = in_turns(here, there, GraphStep((Fetch("two"),)), 100)
    print(f"two tiny ops: one process {one * 1e3:.2f} ms, two workers {two * 1e3:.2f} ms, {(two - one) * 1e3:.2f} ms more")


def measure_crossings() -> None:
    """Tiny ops one after another, each on another worker than the one before."""
    count = 40
    nodes: list[Any] = [{"op": "Const", "name": "x0", "value": 1.0, "device": "/gpu:0"}]
    nodes += [{"op": "Neg", "name": f"x{i}", "inputs": [f"x{i - 1}"], "device": f"/gpu:{i % 2}"} for i in range(1, count + 1)]
    with both(graph_file_from_mapping({"nodes": nodes}), tuple(build_devices([TaskInventory(gpu=2)]))) as (here, there, _):
        one, two = in_turns(here, there, GraphStep((Fetch(f"x{count}"),)), 100)
    print(f"{count} crossings between two workers: {(two - one) / count * 1e3:.3f} ms each")


def measure_loop() -> None:
    """A loop whose turn crosses between two workers four times, besides the condition."""
    turns = 50
    body: list[Any] = [{"id": "x1", "op": "AddV2", "inputs": ["x", 1.0], "device": "/gpu:0"}]
    for i in range(1, 5):
        name = "x" if i == 4 else f"x{i + 1}"
        body.append({"id": name, "op": "Neg", "inputs": [f"x{i}"], "device": f"/gpu:{i % 2}"})
    condition = {"op": "Less", "inputs": ["x", float(turns)], "device": "/gpu:0"}
    nodes: list[Any] = [
        {"op": "Const", "name": "start", "value": 0.0, "device": "/gpu:0"},
        {"while": {"loop_vars": {"x": "start"}, "cond": condition, "body": body}},
    ]
    with both(graph_file_from_mapping({"nodes": nodes}), tuple(build_devices([TaskInventory(gpu=2)]))) as (here, there, _):
        one, two = in_turns(here, there, GraphStep((Fetch("while"),)), 15)
    print(f"a turn of a loop: one process {one / turns * 1e3:.2f} ms, two workers {two / turns * 1e3:.2f} ms")


def measure_transfer() -> None:
    """100 MB from worker to worker, against Dask's own transfer of one array."""
    count = MANY_BYTES // 4
    nodes: list[Any] = [
        {"op": "Placeholder", "name": "value", "dtype": "float", "shape": [], "device": "/gpu:0"},
        {"op": "Const", "name": "dims", "value": [count], "dtype": "int32", "device": "/cpu:0"},
        {"op": "Fill", "name": "many", "inputs": ["dims", "value"], "device": "/gpu:0"},
        {"op": "Size", "name": "here", "inputs": ["many"], "device": "/gpu:0"},
        {"op": "Rank", "name": "there", "inputs": ["many"], "device": "/gpu:1"},
    ]
    file = graph_file_from_mapping({"nodes": nodes})
    feeds = (Feed("value", np.float32(1)),)
    with both(file, tuple(build_devices([TaskInventory(gpu=2)]))) as (_, session, cluster):
        only = session.run
        made, moved = GraphStep((Fetch("here"),), feeds), GraphStep((Fetch("there"),), feeds)
        for step in (made, moved):
            only(step)
        ours, theirs = [], []
        for _ in range(7):
            # what it takes to make the array is in both
            ours.append(seconds_of(lambda: only(moved)) - seconds_of(lambda: only(made)))
            theirs.append(dask_transfer(cluster))
    one, two = median(theirs), median(ours)
    print(f"100 MB between workers: Dask's own {one * 1e3:.0f} ms, ours {two * 1e3:.0f} ms, at {one / two:.2f} of its rate")


def dask_transfer(cluster: Cluster) -> float:
    """The seconds in which Dask moves such an array from one worker to the other."""
    client, (source, target) = cluster.client, [offer.address for offer in cluster.offers]
    future = client.submit(np.ones, MANY_BYTES // 4, np.float32, workers=[source], pure=False)
    client.submit(np.ndim, future, workers=[source], pure=False).result()  # it is there
    return seconds_of(lambda: client.submit(np.ndim, future, workers=[target], pure=False).result())


if __name__ == "__main__":
    for count in (16, 128):
        measure_towers(count)
    measure_tiny()
    measure_crossings()
    measure_loop()
    measure_transfer()
