"""Links of the inventory: what entries stand for, which way a transfer takes, and what is wrong with a list."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.core.errors import GraphFileError, PlacesimError, UsageError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.formats.graph_file.sections.links import bandwidth_value, latency_value, parse_link
from placesim.formats.graph_file.sections.overrides import read_inventory
from placesim.formats.graph_file.writing.raw_writer import graph_file_document
from placesim.machine.inventory import build_devices
from placesim.machine.links import TaskName, Vertex
from placesim.machine.timelines.bandwidth_sharing import Link
from placesim.prediction.machine_resources import SimulatedMachine
from placesim.prediction.routes import Routes
from tests.examples import examples
from tests.prediction.test_steps import study

V100 = {"cpu": 1, "gpu": {"count": 4, "model": "Tesla V100-SXM2-16GB"}}
K80 = {"cpu": 1, "gpu": {"count": 4, "model": "Tesla K80"}}
CLUSTER = [
    {"job": "ps", "tasks": 1, "cpu": 1},
    {"job": "worker", "tasks": 2, "cpu": 1, "gpu": {"count": 2, "model": "Tesla K80"}},
]


def machine(devices: Any, links: list[dict[str, Any]], given: tuple[str, ...] = ()) -> SimulatedMachine:
    inventory, listed = read_inventory({"devices": devices, "links": links})
    return SimulatedMachine(build_devices(inventory), links=listed._replace(given=tuple(map(parse_link, given))))


def way(on: SimulatedMachine, sender: str, receiver: str) -> list[str]:
    """The names of the links between two devices, each as the end of its name says it."""
    places = {name.replace("/replica:0", "").replace("/device:", "/"): place for name, place in on.places.items()}
    full = [name if name.startswith("/job") else f"/job:localhost/task:0/{name}" for name in (sender, receiver)]
    found = on.route(places[full[0]], places[full[1]], from_host=False, to_host=False)
    return [on.links[link].name for link in found.links]


def test_without_a_list_a_gpu_has_what_its_model_has() -> None:
    assert way(machine(V100, []), "GPU:0", "GPU:3") == ["GPU:0 NVLink out", "GPU:3 NVLink in"]
    assert way(machine(K80, []), "GPU:0", "GPU:3") == ["GPU:0 PCIe out", "GPU:3 PCIe in"]
    assert way(machine(K80, []), "CPU:0", "GPU:3") == ["GPU:3 PCIe in"]
    assert way(machine(CLUSTER, []), "/job:ps/task:0/CPU:0", "/job:worker/task:1/GPU:0") == [
        "ps:0/network out",
        "worker:1/network in",
        "worker:1/GPU:0 PCIe in",
    ]


def test_gpus_behind_a_switch_share_its_uplink_and_stay_below_it_among_themselves() -> None:
    entries = [{"between": [f"GPU:{i}", f"switch:{i // 2}"], "bandwidth": "PCIe 3.0 x16"} for i in range(4)]
    entries += [{"between": [f"switch:{i}", "host"], "bandwidth": "PCIe 3.0 x16", "name": "up"} for i in range(2)]
    on = machine(K80, entries)
    assert way(on, "GPU:0", "GPU:1") == ["GPU:0 to switch:0", "switch:0 to GPU:1"]
    assert way(on, "GPU:1", "GPU:2") == [
        "GPU:1 to switch:0",
        "up: switch:0 to host",
        "up: host to switch:1",
        "switch:1 to GPU:2",
    ]
    assert way(on, "CPU:0", "GPU:0")[0] == way(on, "CPU:0", "GPU:1")[0] == "up: host to switch:0"
    assert not on.assumes_links


def test_nvlink_between_some_pairs_leaves_pcie_for_the_others() -> None:
    mesh = [{"between": [f"GPU:{a}", f"GPU:{b}"], "bandwidth": "25GB/s"} for a, b in ((0, 1), (1, 2), (2, 3))]
    on = machine(V100, mesh)
    assert way(on, "GPU:2", "GPU:1") == ["GPU:2 to GPU:1"]
    assert way(on, "GPU:0", "GPU:2") == ["GPU:0 PCIe out", "GPU:2 PCIe in"]  # never through GPU:1
    assert way(on, "GPU:0", "CPU:0") == ["GPU:0 PCIe out"]


def test_gpus_that_no_entry_names_keep_their_nvlink() -> None:
    on = machine(V100, [{"between": ["GPU:0", "GPU:1"], "bandwidth": "25GB/s"}])
    assert way(on, "GPU:2", "GPU:3") == ["GPU:2 NVLink out", "GPU:3 NVLink in"]
    assert way(on, "GPU:1", "GPU:2") == ["GPU:1 PCIe out", "GPU:2 PCIe in"]


def test_an_nvswitch_is_a_switch_or_what_joins_them_by_default() -> None:
    on = machine(K80, [{"between": ["GPU:*", "switch:nvlink"], "kind": "nvlink", "bandwidth": "300GB/s"}])
    assert way(on, "GPU:0", "GPU:3") == ["GPU:0 to switch:nvlink", "switch:nvlink to GPU:3"]
    assert way(on, "GPU:0", "CPU:0") == ["GPU:0 PCIe out"]
    without = machine(V100, [{"between": ["GPU:*", "switch:nvlink"], "kind": "nvlink", "bandwidth": "none"}])
    assert way(without, "GPU:0", "GPU:3") == ["GPU:0 PCIe out", "GPU:3 PCIe in"]


def test_a_medium_is_one_link_for_all_of_its_ends() -> None:
    on = machine(K80, [{"shared_by": ["GPU:*", "host"], "bandwidth": "6GB/s", "name": "bus"}])
    ways = [way(on, a, b) for a, b in itertools.permutations(["CPU:0", "GPU:0", "GPU:1", "GPU:2"], 2)]
    assert ways == [["bus: GPU:0 - ... - host"]] * len(ways)
    assert len(on.links) == 1


def test_ways_say_what_shares_a_bandwidth() -> None:
    ends = {"between": ["GPU:0", "GPU:1"], "bandwidth": "25GB/s"}
    each, shared, one = (machine(K80, [ends | {"ways": ways}]) for ways in ("each", "shared", "one"))
    assert (way(each, "GPU:0", "GPU:1"), way(each, "GPU:1", "GPU:0")) == (["GPU:0 to GPU:1"], ["GPU:1 to GPU:0"])
    assert way(shared, "GPU:0", "GPU:1") == way(shared, "GPU:1", "GPU:0") == ["GPU:0 - GPU:1"]
    assert way(one, "GPU:0", "GPU:1") == ["GPU:0 to GPU:1"]
    assert way(one, "GPU:1", "GPU:0") == ["GPU:1 PCIe out", "GPU:0 PCIe in"]


def test_an_end_without_a_task_is_meant_in_each() -> None:
    on = machine(
        CLUSTER,
        [{"between": ["host", "network"], "bandwidth": "100Gbit/s"}, {"between": ["GPU:0", "GPU:1"], "bandwidth": 1e10}],
    )
    assert way(on, "/job:worker/task:0/GPU:0", "/job:worker/task:0/GPU:1") == ["worker:0/GPU:0 to worker:0/GPU:1"]
    assert way(on, "/job:worker/task:1/CPU:0", "/job:ps/task:0/CPU:0") == ["worker:1/host to network", "network to ps:0/host"]
    assert {link.bandwidth for link in on.links if "network" in link.name} == {100e9 / 8}
    assert not any("network in" in link.name for link in on.links)


def test_one_job_may_have_another_network_link_than_the_rest() -> None:
    on = machine(CLUSTER, [{"between": ["/job:ps/host", "network"], "bandwidth": "40Gbit/s", "latency": "5us"}])
    assert way(on, "/job:worker/task:1/CPU:0", "/job:ps/task:0/CPU:0") == ["worker:1/network out", "network to ps:0/host"]


def test_every_task_may_be_joined_with_every_other() -> None:
    on = machine(CLUSTER, [{"between": ["/task:*/host", "/task:*/host"], "bandwidth": "40Gbit/s"}])
    assert way(on, "/job:worker/task:1/CPU:0", "/job:worker/task:0/CPU:0") == ["worker:1/host to worker:0/host"]
    assert len([link for link in on.links if "host" in link.name]) == 6


def test_what_the_command_line_gives_takes_the_place_of_the_same_ends() -> None:
    mesh = [{"between": ["GPU:0", "GPU:1"], "bandwidth": "25GB/s"}, {"between": ["GPU:2", "GPU:3"], "bandwidth": "25GB/s"}]
    on = machine(K80, mesh, ("GPU:1-GPU:0=1GB/s@3us", "GPU:3-GPU:2=none", "GPU:0-host=free"))
    found = {link.name: link for link in on.links}
    assert found["GPU:1 to GPU:0"].bandwidth == 1e9
    assert found["GPU:1 to GPU:0"].latency == pytest.approx(3e-6)
    assert way(on, "GPU:0", "GPU:1") == ["GPU:0 to GPU:1"]
    assert way(on, "GPU:2", "GPU:3") == ["GPU:2 PCIe out", "GPU:3 PCIe in"]
    assert found["GPU:0 to host"] == Link("GPU:0 to host", math.inf, 0.0)


def test_fewer_devices_than_the_list_names_leave_links_out() -> None:
    graph = {
        "devices": V100,
        "links": [{"between": ["GPU:0", "GPU:3"], "bandwidth": "25GB/s"}],
        "nodes": [{"op": "Const", "name": "a", "value": 1.0, "device": "/gpu:0"}],
    }
    assert [link.name for link in study(graph, gpu=1).links] == [
        "GPU:0 PCIe in",
        "GPU:0 PCIe out",
        "GPU:0 NVLink in",
        "GPU:0 NVLink out",
    ]


WIDTHS = st.sampled_from([1.0, 2.0, 4.0, math.inf])
EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), WIDTHS, st.integers(0, 3)), max_size=18)
NAMES = ("GPU:0", "GPU:1", "GPU:2", "host", "switch:a", "switch:b", "network")


@pytest.mark.slow
@given(EDGES)
@settings(max_examples=examples(300), deadline=None)
def test_the_way_is_the_best_of_all_ways(edges: list[tuple[int, int, float, int]]) -> None:
    """Against every simple way there is."""
    vertices = [Vertex(None if name == "network" else TaskName("a", 0), name) for name in NAMES]
    routes = Routes()
    for first, second, width, latency in edges:
        if first != second:
            routes.connect(vertices[first], vertices[second], routes.add(Link("l", width, float(latency))))
    kept = [edge for edge in edges if edge[0] != edge[1]]

    def ways(at: int, seen: tuple[int, ...], taken: tuple[int, ...], end: int) -> list[tuple[int, ...]]:
        if at == end:
            return [taken]
        if at < 3 and taken:
            return []
        found = []
        for number, (first, second, _, _) in enumerate(kept):
            if first == at and second not in seen:
                found += ways(second, (*seen, second), (*taken, number), end)
        return found

    for start, end in itertools.permutations(range(len(NAMES)), 2):
        keys = [
            (
                sum(kept[link][1] in (3, 6) for link in taken[:-1]),
                -min(kept[link][2] for link in taken),
                len(taken),
                sum(kept[link][3] for link in taken),
            )
            for taken in ways(start, (start,), (), end)
        ]
        found = routes.find(vertices[start], vertices[end])
        if not keys:
            assert found is None
            continue
        assert found is not None
        assert min(keys) == (
            sum(kept[link][1] in (3, 6) for link in found[:-1]),
            -min(kept[link][2] for link in found),
            len(found),
            sum(kept[link][3] for link in found),
        )


@pytest.mark.parametrize(
    ("written", "bytes_per_second"),
    [
        (5, 5.0),
        ("25GB/s", 25e9),
        ("1.5 KiB/s", 1536.0),
        ("100Gbit/s", 12.5e9),
        ("1e9", 1e9),
        ("PCIe 1.0 x4", 1e9),
        ("pcie4x16", 16e9 * 128 / 130 / 8 * 16),
        ("free", math.inf),
        ("none", 0.0),
    ],
)
def test_bandwidths(written: Any, bytes_per_second: float) -> None:
    assert bandwidth_value(written) == pytest.approx(bytes_per_second)


@pytest.mark.parametrize(("written", "seconds"), [(0.5, 0.5), ("5us", 5e-6), ("2 ms", 2e-3), ("3µs", 3e-6), ("none", 0.0)])
def test_latencies(written: Any, seconds: float) -> None:
    assert latency_value(written) == pytest.approx(seconds)


GOOD = {"between": ["GPU:0", "GPU:1"], "bandwidth": "25GB/s"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (GOOD | {"bandwidth": 0}, "bandwidth out of range: got 0, expected at least 1 byte per second"),
        (GOOD | {"bandwidth": "-3GB/s"}, "bandwidth out of range: got '-3GB/s'"),
        (GOOD | {"bandwidth": 1 << 63}, "expected less than 2**63 bytes per second"),
        (GOOD | {"bandwidth": "25Gb/s"}, "bad bandwidth: got '25Gb/s'"),
        (GOOD | {"bandwidth": "PCIe 9 x16"}, "unknown PCIe generation"),
        (GOOD | {"bandwidth": "PCIe 3 x3"}, "bad number of PCIe lanes"),
        (GOOD | {"bandwidth": float("nan")}, "bandwidth out of range"),
        (GOOD | {"bandwidth": [1]}, "wrong type of a bandwidth"),
        (GOOD | {"latency": 0}, "latency out of range: got 0, expected more than 0 seconds"),
        (GOOD | {"latency": "-1us"}, "latency out of range"),
        (GOOD | {"latency": "1e400"}, "latency out of range"),
        (GOOD | {"latency": "5 years"}, "bad latency"),
        (GOOD | {"kind": "pci"}, "unknown 'kind' of a link: got 'pci', expected pcie, nvlink or network; did you mean 'pcie'?"),
        (GOOD | {"ways": "both"}, "unknown 'ways' of a link: got 'both'"),
        (GOOD | {"with": 1}, "unknown key in an entry of 'links': got 'with'"),
        (GOOD | {"name": 3}, "wrong type of 'name'"),
        (
            GOOD | {"between": ["GPU:0", "GPU:4"]},
            "link to an unknown device: got 'GPU:4', expected a device of the machine: CPU:0, GPU:0 to GPU:3",
        ),
        (GOOD | {"between": ["GPU:0", "/job:ps/host"]}, "link to an unknown device: got '/job:ps/host'"),
        (GOOD | {"between": ["GPU:0", "GPU:0"]}, "link to itself"),
        (GOOD | {"between": ["GPU:0", "GPU"]}, "wrong end of a link: got 'GPU'"),
        (GOOD | {"between": ["GPU:0", "/job:a/network"]}, "wrong end of a link"),
        (GOOD | {"between": ["GPU:0", 1]}, "wrong end of a link: got 1"),
        (GOOD | {"between": ["GPU:0", "GPU:1", "host"]}, "got 3, expected a list of two ends; 'shared_by' takes more"),
        (GOOD | {"between": "GPU:0"}, "ends of a link: got 'GPU:0', expected a list of two ends"),
        (GOOD | {"shared_by": ["GPU:0", "GPU:1"]}, "got both of 'between' and 'shared_by'"),
        ({"bandwidth": 1}, "got neither of 'between' and 'shared_by'"),
        ({"between": ["GPU:0", "host"]}, "link without bandwidth"),
        ({"shared_by": ["GPU:0", "host"], "bandwidth": 1, "ways": "each"}, "wrong 'ways' for a shared link: got 'each'"),
        (3, "wrong type of an entry of 'links'"),
    ],
)
def test_what_is_wrong_is_said(entry: Any, message: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        read_inventory({"devices": K80, "links": [entry]})
    assert message in caught.value.message


def test_there_is_an_end_to_links() -> None:
    with pytest.raises(GraphFileError, match="too many links"):
        read_inventory({"devices": {"gpu": 4096}, "links": [{"between": ["GPU:*", "GPU:*"], "bandwidth": 1}]})


@pytest.mark.parametrize(
    "text", ["GPU:0-GPU:1", "GPU:0=3", "GPU:0-GPU:0=3", "GPU:0-foo=3", "host-network=0", "host-network=1@0", ""]
)
def test_a_link_of_the_command_line_that_means_nothing(text: str) -> None:
    with pytest.raises(UsageError):
        study({"nodes": [{"op": "Const", "name": "a", "value": 1.0}]}, link=[text])


def test_links_are_written_as_they_are_read() -> None:
    entries = [
        {"between": ["GPU:0", "switch:a"], "bandwidth": "PCIe 3.0 x16", "latency": "3us", "name": "up"},
        {"between": ["GPU:*", "host"], "bandwidth": "free", "ways": "one"},
        {"between": ["/task:*/host", "network:b"], "bandwidth": "none", "kind": "pcie"},
        {"shared_by": ["/job:localhost/task:0/GPU:1", "host", "network"], "bandwidth": 7},
    ]
    file = graph_file_from_mapping(
        {"nodes": [{"op": "Const", "name": "a", "value": 1.0}], "devices": {"gpu": 2}, "links": entries}
    )
    again = graph_file_from_mapping(graph_file_document(file))
    assert again.links.entries == file.links.entries


def test_an_error_of_a_mapping_names_it() -> None:
    with pytest.raises(PlacesimError, match="no route"):
        study(
            {
                "devices": {"gpu": 1},
                "links": [{"between": ["GPU:0", "host"], "bandwidth": "none"}],
                "nodes": [
                    {"op": "Const", "name": "a", "value": 1.0},
                    {"op": "Relu", "name": "b", "inputs": ["a"], "device": "/gpu:0"},
                ],
            }
        )
