"""The resources of a machine and the ways between its devices, by hand."""

from __future__ import annotations

import pytest

from placesim.core.errors import GraphFileError
from placesim.machine.host_models import HostModel
from placesim.machine.links import HOST, LATENCIES, NETWORK_BYTES, PCIE_BYTES_PER_LANE, TaskName, Vertex
from placesim.machine.timelines.bandwidth_sharing import Link
from placesim.machine.timelines.workload import Cores, SerialStream
from placesim.prediction.hosts import Host
from placesim.prediction.machine_resources import Route, SimulatedMachine, Threads
from placesim.prediction.routes import Routes
from tests.prediction.test_links import CLUSTER, K80, V100, machine

COPIES = ("from host", "to host", "between GPUs")


def gpu(name: str, host: int) -> list[SerialStream]:
    return [SerialStream(f"{name} compute", host), *(SerialStream(f"{name} {way}") for way in COPIES)]


def pair(name: str, bandwidth: float, latency: float) -> list[Link]:
    return [Link(f"{name} {way}", bandwidth, latency) for way in ("in", "out")]


def test_a_task_has_its_cores_and_each_gpu_its_streams_and_links() -> None:
    found = machine({"cpu": 2, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}}, [])
    assert found.resources == [Cores("host", 8, 8), *gpu("GPU:0", 0), *gpu("GPU:1", 0)]
    pcie = 16 * PCIE_BYTES_PER_LANE[3], LATENCIES["pcie"]
    nvlink = 150e9, LATENCIES["nvlink"] / 2
    assert found.links == [link for n in (0, 1) for link in (*pair(f"GPU:{n} PCIe", *pcie), *pair(f"GPU:{n} NVLink", *nvlink))]
    assert found.assumes_links
    assert [(place.name, place.cores) for place in found.places.values()] == [
        ("host", 0), ("host", 0), ("Tesla V100-SXM2-16GB", 0), ("Tesla V100-SXM2-16GB", 0)
    ]  # fmt: skip


def test_several_tasks_have_names_and_a_network() -> None:
    found = machine(CLUSTER, [])
    assert [r.name for r in found.resources if isinstance(r, Cores)] == ["ps:0/host", "worker:0/host", "worker:1/host"]
    assert [r.host for r in found.resources if isinstance(r, SerialStream) and r.name.endswith("compute")] == [1, 1, 2, 2]
    assert found.links[:2] == pair("ps:0/network", NETWORK_BYTES, LATENCIES["network"] / 2)
    assert [link.name for link in found.links[6:8]] == ["worker:0/GPU:0 PCIe in", "worker:0/GPU:0 PCIe out"]


@pytest.mark.parametrize(("generation", "counted"), [(0, 1), (1, 1), (4, 4), (5, 5), (6, 5)])
def test_an_unknown_pcie_is_the_nearest_known(generation: int, counted: int) -> None:
    devices = [place.device for place in machine(K80, []).places.values()][:2]
    assert devices[1].gpu is not None
    model = devices[1].gpu.model
    figures = model.figures._replace(pcie_generation=generation, pcie_lanes=4)
    changed = devices[1]._replace(gpu=devices[1].gpu._replace(model=model._replace(figures=figures)))
    found = SimulatedMachine([devices[0], changed])
    assert found.links[0].bandwidth == 4 * PCIE_BYTES_PER_LANE[counted]


@pytest.mark.parametrize(
    ("threads", "inter_op", "intra_op"),
    [(None, 6, 4), (Threads(3, 2), 3, 2), (Threads(0, 9), 6, 4), (Threads(-1, -1), 1, 4), (Threads(1, 1), 1, 1)],
)
def test_threads_are_those_of_the_options_or_as_many_as_the_host_has(
    threads: Threads | None, inter_op: int, intra_op: int
) -> None:
    devices = [place.device for place in machine({"cpu": 1}, []).places.values()]
    model = HostModel(cores=4, inter_op_threads=6)
    found = SimulatedMachine([device._replace(host=model) for device in devices], threads)
    assert found.resources == [Cores("host", 4, inter_op)]
    assert found.intra_op(Host(model)) == intra_op


def test_a_copy_takes_the_streams_of_the_gpus_at_its_ends() -> None:
    found = machine(CLUSTER, [])
    ps, one, other, far = (
        found.places[f"/job:{name}"]
        for name in (
            "ps/replica:0/task:0/device:CPU:0",
            "worker/replica:0/task:0/device:GPU:0",
            "worker/replica:0/task:0/device:GPU:1",
            "worker/replica:0/task:1/device:GPU:0",
        )
    )
    names = [resource.name for resource in found.resources]

    def streams(sender: object, receiver: object, *, from_host: bool = False, to_host: bool = False) -> list[str]:
        (first,) = (place for place in found.places.values() if place is sender)
        (last,) = (place for place in found.places.values() if place is receiver)
        return [names[stream] for stream in found.route(first, last, from_host=from_host, to_host=to_host).streams]

    assert streams(one, other) == ["worker:0/GPU:0 between GPUs", "worker:0/GPU:1 between GPUs"]
    assert streams(one, far) == ["worker:0/GPU:0 to host", "worker:1/GPU:0 from host"]
    assert streams(ps, one) == ["worker:0/GPU:0 from host"]
    assert streams(one, ps) == ["worker:0/GPU:0 to host"]
    assert streams(one, other, from_host=True) == ["worker:0/GPU:1 from host"]
    assert streams(one, other, to_host=True) == ["worker:0/GPU:0 to host"]
    assert streams(one, far, from_host=True, to_host=True) == []
    assert found.route(one, one, from_host=False, to_host=False) == Route((), ())
    assert found.route(one, one, from_host=True, to_host=True) == Route((), ())


def test_gpus_of_two_tasks_that_a_switch_joins_copy_between_themselves() -> None:
    ends = ["/job:worker/task:0/GPU:0", "/job:worker/task:1/GPU:0"]
    joined = machine(CLUSTER, [{"between": ends, "bandwidth": 1e10}])
    places = [joined.places[f"/job:worker/replica:0/task:{task}/device:GPU:0"] for task in (0, 1)]
    route = joined.route(*places, from_host=False, to_host=False)
    assert [joined.resources[stream].name for stream in route.streams] == [
        "worker:0/GPU:0 between GPUs", "worker:1/GPU:0 between GPUs"
    ]  # fmt: skip


def test_a_missing_route_names_both_ends_and_their_devices() -> None:
    found = machine(V100, [{"between": ["GPU:0", "host"], "bandwidth": "none", "kind": "pcie"}])
    cpu, one = (found.places[f"/job:localhost/replica:0/task:0/device:{name}"] for name in ("CPU:0", "GPU:0"))
    with pytest.raises(GraphFileError) as caught:
        found.route(cpu, one, from_host=True, to_host=False)
    assert "no route from host (/job:localhost/replica:0/task:0/device:CPU:0) to GPU:0 (" in caught.value.message
    assert "got no connecting links, expected a path over hosts and switches" in caught.value.message


def test_listed_links_are_named_by_their_ends_and_say_whether_they_are_shared() -> None:
    entries = [
        {"between": ["GPU:0", "GPU:1"], "bandwidth": 1e10, "latency": "3us", "name": "bridge", "ways": "shared"},
        {"shared_by": ["GPU:0", "GPU:1", "host"], "bandwidth": 2e10},
        {"shared_by": ["GPU:0", "GPU:1", "GPU:2", "host"], "bandwidth": 3e10},
        {"between": ["GPU:2", "GPU:3"], "bandwidth": 4e10, "ways": "one"},
    ]
    found = machine(K80, entries)
    listed = {link.name: link.bandwidth for link in found.links if "PCIe" not in link.name}
    assert listed == {
        "bridge: GPU:0 - GPU:1": 1e10, "GPU:0 - GPU:1 - host": 2e10, "GPU:0 - ... - host": 3e10, "GPU:2 to GPU:3": 4e10
    }  # fmt: skip
    (bridge,) = (link for link in found.links if link.name.startswith("bridge"))
    assert bridge.latency == pytest.approx(3e-6)


# --- routes

TASK = TaskName("a", 0)
GPUS = [Vertex(TASK, f"GPU:{n}") for n in range(3)]
A_HOST, SWITCH, NETWORK = Vertex(TASK, HOST), Vertex(TASK, "switch:a"), Vertex(None, "network")


def routes_of(*edges: tuple[Vertex, Vertex, float, float]) -> Routes:
    routes = Routes()
    for first, second, width, latency in edges:
        routes.connect(first, second, routes.add(Link("l", width, latency)))
    return routes


def test_the_fewest_hosts_then_the_widest_then_the_fewest_links_then_the_least_latency() -> None:
    source, target, other = GPUS
    over_host = (source, A_HOST, 9.0, 0.0), (A_HOST, target, 9.0, 0.0)
    over_switch = (source, SWITCH, 1.0, 5.0), (SWITCH, target, 1.0, 5.0)
    assert routes_of(*over_host, *over_switch).find(source, target) == (2, 3)
    assert routes_of(*over_host).find(source, target) == (0, 1)
    assert routes_of((source, target, 1.0, 0.0), (source, target, 2.0, 9.0)).find(source, target) == (1,)
    assert routes_of((source, target, 2.0, 9.0), (source, target, 2.0, 1.0)).find(source, target) == (1,)
    assert routes_of((source, target, 2.0, 1.0), (source, target, 2.0, 1.0)).find(source, target) == (0,)
    direct = (source, target, 1.0, 99.0)
    assert routes_of(*over_switch, direct).find(source, target) == (2,)
    # a way of one bandwidth is as wide as its narrowest link, and never leads through another GPU
    narrow = (source, SWITCH, 5.0, 0.0), (SWITCH, target, 0.5, 0.0)
    assert routes_of(*narrow, direct).find(source, target) == (2,)
    through = (source, other, 9.0, 0.0), (other, target, 9.0, 0.0)
    assert routes_of(*through, direct).find(source, target) == (2,)
    assert routes_of(*through).find(source, target) is None
    assert routes_of(direct).find(target, source) is None
    assert routes_of(direct).find(source, source) == ()


def test_what_passes_hosts_and_networks_is_known() -> None:
    source, target, other = GPUS
    routes = routes_of(
        (source, SWITCH, 1.0, 0.0), (SWITCH, target, 1.0, 0.0), (source, A_HOST, 1.0, 0.0), (A_HOST, NETWORK, 1.0, 0.0),
        (NETWORK, other, 1.0, 0.0),
    )  # fmt: skip
    assert [routes.passes_host(source, end) for end in (target, other, A_HOST, NETWORK)] == [False, True, False, True]
    assert not routes.passes_host(target, source)


def test_a_medium_is_one_link_between_all_its_ends() -> None:
    routes = Routes()
    routes.share([*GPUS, A_HOST], routes.add(Link("bus", 2.0, 1.0)))
    assert routes.find(GPUS[0], GPUS[2]) == routes.find(A_HOST, GPUS[1]) == (0,)
    assert not routes.passes_host(GPUS[0], GPUS[1])
    # a wider way counts more than a shorter one
    wide = Routes()
    wide.share([*GPUS, A_HOST], wide.add(Link("bus", 2.0, 1.0)))
    wide.connect(GPUS[0], SWITCH, wide.add(Link("up", 3.0, 0.0)))
    wide.connect(SWITCH, GPUS[1], wide.add(Link("down", 3.0, 0.0)))
    assert wide.find(GPUS[0], GPUS[1]) == (1, 2)
