"""A worker's part of a step, without a cluster: what it sends, what it waits for, what it forgets, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import InvalidArgumentError
from placesim.graph.session_steps import Feed, Fetch, GraphStep
from placesim.ops.kernels import load_kernels
from placesim.runtime.dask.message_queue import BEFORE_ALL, Arrival, FailureLimit, StepInterruption, StopMessage
from placesim.runtime.dask.ordered_worker import ScheduledPart
from placesim.runtime.executors.program import DeviceState, build_program
from placesim.runtime.executors.schedule import schedule_nodes
from placesim.runtime.executors.transfer_keys import TransferKey
from tests.runtime.sessions.graphs import make_session

HERE, THERE = (f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(2))


def op(name: str, kind: str, *inputs: Any, device: str = "/cpu:0", **more: Any) -> dict[str, Any]:
    return {"op": kind, "name": name, "inputs": list(inputs), "device": device, **more}


NODES = [
    {"op": "Placeholder", "name": "x", "dtype": "float", "device": "/cpu:0"},
    op("a", "Neg", "x"),
    op("d", "AddV2", "a", "x"),
    op("there", "AddV2", "a", "a", device="/cpu:1"),
    op("c", "Neg", "there"),
]


class Part:
    """The part of CPU:0, and what it was seen to do: names in the order in which they ran, and what was sent."""

    def __init__(self, nodes: list[dict[str, Any]], *fetches: str, is_here: Callable[[str], bool] = HERE.__eq__) -> None:
        session = make_session(nodes, cpu=2)
        step = GraphStep(tuple(map(Fetch, fetches)), (Feed("x", np.float32(0)),))
        parts = session.prepare(step).partitions.parts
        wanted = [number for number, part in enumerate(parts) if is_here(part.device.name)]
        states = {part.device.name: DeviceState(part.device) for part in parts}
        programs = [build_program(parts[n].graph, states[parts[n].device.name], load_kernels(), {}) for n in wanted]
        whole = schedule_nodes([part.graph for part in parts])
        rows = [(position, (wanted.index(part), node)) for position, (part, node) in enumerate(whole) if part in wanted]
        self.part = ScheduledPart(programs, [pair for _, pair in rows], [position for position, _ in rows], is_here)
        self.names = [programs[part].graph.nodes[node].name for _, (part, node) in rows]
        self.ran: list[str] = []
        self.held: list[int] = []
        self.sent: list[tuple[str, TransferKey, Any]] = []
        self.mail: Any = SimpleQueue()
        for number, (name, step_) in enumerate(zip(self.names, self.part.steps, strict=True)):
            self.part.steps[number] = self._watched(name, step_)

    def _watched(self, name: str, step: Callable[[], None]) -> Callable[[], None]:
        def watched() -> None:
            self.held.append(sum(value is not None for store in self.part.stores for value in store))
            self.ran.append(name)
            step()

        return watched

    def run(self, x: float = 3.0) -> list[float]:
        def send(device: str, key: Any, value: Any, generation: int) -> None:
            assert generation == 0
            self.sent.append((device, key, value))
            if self.mail.empty() and device == THERE:
                (found,) = self.part.edges.receives
                self.mail.put(Arrival(found, value + value, 0, 0, 0))

        return [float(value) for _, value in sorted(self.part.run({0: np.float32(x)}, self.mail, send).items())]


def test_a_tensor_goes_out_and_another_comes_back() -> None:
    part = Part(NODES, "c", "d")
    assert part.run() == [6.0, 0.0]
    ((device, key, value),) = part.sent
    assert (device, key[:2], value) == (THERE, (HERE, THERE), -3.0)
    assert part.part.edges.receives.keys() != {key}
    assert part.run(5.0) == [10.0, 0.0]
    assert len(part.sent) == 2


def test_what_others_wait_for_runs_first() -> None:
    part = Part(NODES, "c", "d")
    part.run()
    assert part.ran[:2] == ["_arg_x_0_0", "a"]
    assert part.ran[2].startswith("a/_")
    assert part.names.index("d") < part.names.index(part.ran[2])
    assert sorted(part.ran) == sorted(part.names)


def test_values_are_forgotten_with_their_last_reader() -> None:
    part = Part([*NODES[:3], op("e", "Neg", "d"), op("f", "Neg", "e")], "f")
    assert part.run() == [0.0]
    assert part.ran == ["_arg_x_0_0", "a", "d", "e", "f", "_retval_f_0_0"]
    assert part.held == [0, 1, 2, 1, 1, 1]
    assert not any(value is not None for store in part.part.stores for value in store)
    assert (part.part.feeds, part.part.results) == ({}, {})


def test_an_output_that_nobody_reads_is_forgotten_at_once() -> None:
    unread = op("parts", "Unpack", [1.0, 2.0], attrs={"num": 2})
    part = Part([*NODES[:1], unread, op("e", "AddV2", "parts:1", "x"), op("f", "Neg", "e")], "f")
    assert part.run() == [-5.0]
    after = part.held[part.ran.index("parts") + 1]
    assert after == part.held[part.ran.index("parts")]


def test_both_devices_here_send_nothing() -> None:
    part = Part(NODES, "c", "d", is_here=lambda device: True)
    assert part.run() == [6.0, 0.0]
    assert (part.sent, part.part.edges.receives, part.part.edges.urgent) == ([], {}, set())


FAILING = [*NODES[:2], op("bad", "Reshape", "x", [2, 2]), op("late", "Neg", "bad"), op("ok", "Neg", "a")]


def test_the_first_error_in_the_order_ends_the_part() -> None:
    part = Part(FAILING, "late", "ok")
    assert part.part.position == BEFORE_ALL
    with pytest.raises(InvalidArgumentError) as caught:
        part.run()
    assert (caught.value.node, caught.value.device) == ("bad", HERE)
    assert part.part.position == (part.part.positions[part.names.index("bad")],)
    assert "late" not in part.ran
    assert not any(value is not None for store in part.part.stores for value in store)


def test_what_comes_after_a_failure_elsewhere_need_not_run() -> None:
    part = Part(FAILING, "late", "ok")
    part.mail.put(FailureLimit((part.part.positions[part.names.index("bad")],)))
    with pytest.raises(StepInterruption):
        part.run()
    assert "bad" not in part.ran
    assert part.ran == part.names[: part.names.index("bad")]


def test_a_failure_elsewhere_after_all_nodes_changes_nothing() -> None:
    part = Part(NODES[:3], "d")
    part.mail.put(FailureLimit((1 << 30,)))
    assert part.run() == [0.0]


def test_a_step_that_is_given_up() -> None:
    part = Part(NODES[:3], "d")
    part.mail.put(StopMessage())
    with pytest.raises(StepInterruption):
        part.run()
    assert part.ran == []
    assert part.run() == [0.0]


def test_what_keeps_state_runs_in_its_order() -> None:
    draws = [op(f"r{i}", "RandomUniform", [2], attrs={"dtype": "float", "seed": i + 1}) for i in range(3)]
    part = Part([*NODES[:1], *draws, op("sum", "AddN", "r2", "r1", "r0"), op("all", "Sum", "sum", [0])], "all")
    part.run()
    drawn = [name for name in part.ran if name in ("r0", "r1", "r2")]
    assert drawn == [name for name in part.names if name in ("r0", "r1", "r2")]
    numbers = [part.names.index(name) for name in drawn]
    followers = part.part.edges.followers
    assert numbers[1] in followers[numbers[0]]
    assert numbers[2] in followers[numbers[1]]
