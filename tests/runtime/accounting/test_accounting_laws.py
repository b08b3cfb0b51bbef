"""Laws of accounting: it changes nothing, forgets nothing, keeps nothing, and a step that is walked through agrees."""

from __future__ import annotations

import weakref
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Fetch
from placesim.graph.session_steps import GraphStep as SessionStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.machine.memory.buffer_sources import AllocatedMemory
from placesim.machine.memory.buffers import Buffer
from placesim.ops.kernels.memory_rules import TensorMemory
from placesim.runtime.accounting.default_rule import PlainKernel
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.ledger_setup import build_ledger
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.accounting.ordered_memory import ScheduledAccounts
from placesim.runtime.accounting.step_account import StepAccount
from placesim.runtime.executors.constant_folding import known_values, small_from_known
from placesim.runtime.executors.dataflow_executor import DataflowExecutor
from placesim.runtime.executors.fusion import find_heads
from placesim.runtime.executors.node_steps import Step
from placesim.runtime.executors.ordered_executor import Executor
from placesim.runtime.executors.thread_pools import ThreadPools
from placesim.runtime.sessions.session import GraphSession
from tests.benchmarks.accounting_bench import loop
from tests.runtime.accounting.sessions import (
    GRAPHS,
    Scenario,
    StepRecord,
    file_scenario,
    ledger_of,
    machine_of,
    model_scenario,
    play,
    session_scenario,
)
from tests.runtime.sessions.graph_cases import FILE as RECORDED_GRAPHS
from tests.runtime.sessions.list_cases import read_cases
from tests.runtime.sessions.models import CASES as MODELS
from tests.runtime.sessions.models import with_small_layers

RECORDED_SESSIONS = 412


def hold_to_laws(scenario: Scenario, root: Path, monkeypatch: pytest.MonkeyPatch) -> list[StepRecord]:
    """Run a scenario without and with a ledger, and walk through it; return the steps without."""
    places = [root / name for name in ("plain", "accounted", "walked")]
    for place in places:
        place.mkdir(parents=True)
    monkeypatch.chdir(places[0])
    plain = list(play(scenario, places[0]))
    monkeypatch.chdir(places[1])
    ledger, walked_ledger = ledger_of(scenario), ledger_of(scenario)
    accounted = list(play(scenario, places[1], ledger, is_repeated=True))
    check_figures(ledger)
    for without, with_ledger in zip(plain, accounted, strict=False):
        assert with_ledger.error == without.error
        assert all(map(is_same, with_ledger.values, without.values))
    for step in accounted:
        assert step.error or not step.left_over
    if len(accounted) > len(plain):
        assert accounted[-1].in_use == accounted[-2].in_use
    monkeypatch.chdir(places[2])
    for step, walk in zip(accounted, play(scenario, places[2], walked_ledger, is_walked=True), strict=False):
        assert walk.error == step.error
        if step.error:
            return plain
        assert (walk.peaks, walk.in_use) == (step.peaks, step.in_use)
        assert not walk.left_over
    check_figures(walked_ledger)
    return plain


def check_figures(ledger: Ledger) -> None:
    """What each memory says of itself agrees with what lives there."""
    for source in ledger.all_sources():
        assert source.in_use == sum(buffer.allocated for buffer in source.live) <= source.peak
        assert all(buffer.holders > 0 for buffer in source.live)
        if isinstance(source, AllocatedMemory):
            assert source.allocator.bytes_in_use == source.in_use


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same, bit for bit."""
    if not isinstance(one, np.ndarray) or one.dtype == object:
        return repr(one) == repr(other)
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(GRAPHS.glob("*.yaml")), ids=lambda path: path.stem)
def test_graph_file_keeps_the_laws(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to_laws(file_scenario(path), tmp_path, monkeypatch)


@pytest.mark.corpus
@pytest.mark.parametrize("case", MODELS, ids=lambda case: case["id"])
def test_recorded_model_keeps_the_laws(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = model_scenario(with_small_layers(case))
    *_, rest = steps = hold_to_laws(scenario, tmp_path, monkeypatch)
    assert not any(step.error for step in steps)
    assert rest.targets
    assert rest.targets == tuple(fetch.name for fetch in scenario.steps[-1].fetches)


@pytest.mark.corpus
def test_recorded_sessions_keep_the_laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    compared = 0
    for compared, case in enumerate(read_cases(RECORDED_GRAPHS), 1):
        with subtests.test(case["id"]):
            hold_to_laws(session_scenario(case), tmp_path / str(compared), monkeypatch)
    assert compared == RECORDED_SESSIONS


def held_positions(executor: Executor, steps: list[Step]) -> tuple[list[list[bool]], list[list[bool]]]:
    """After each node of a run, which places of the stores have a value; and which have memory."""
    values: list[list[bool]] = []
    memories: list[list[bool]] = []
    accounts = executor._observed
    assert isinstance(accounts, ScheduledAccounts)

    def watched(step: Step) -> Step:
        def run() -> None:
            step()
            values.append([value is not None for store in executor._stores for value in store])
            memories.append([memory is not None for store in accounts._memories for memory in store])

        return run

    steps[:] = map(watched, steps)
    return values, memories


@pytest.mark.slow
@pytest.mark.parametrize("name", ["towers", "variable-scopes"])
def test_values_are_dropped_where_their_memory_is(name: str, tmp_path: Path) -> None:
    scenario = file_scenario(GRAPHS / f"{name}.yaml")
    ledger = ledger_of(scenario)
    session = GraphSession(scenario.file.graph, machine_of(scenario), scenario.file.config, directory=tmp_path, ledger=ledger)
    for step in scenario.steps:
        session.run(step)
    compared = 0
    for prepared in session._prepared.values():
        executor = prepared.executor
        if not isinstance(executor, Executor) or prepared.step.client.feeds:
            continue
        accounts = executor._observed
        plainly, _ = held_positions(executor, executor._steps(None))
        values, memories = held_positions(executor, executor._steps(accounts))
        executor.run({}, is_accounted=False)
        executor.run({})
        ledger.end_step()
        assert values == memories
        assert not any(values[-1])
        # in a plain run, constants have their values before, and small tensors that depend on them alone come first
        order = executor.schedule.order
        known = known_values(executor.programs, order)
        assert known is not None
        small = small_from_known(executor.programs, order, known) if find_heads(executor.programs, order) else []
        early = {*known.nodes, *small}
        free = [
            (number, instruction.node.id) not in early
            for number, program in enumerate(executor.programs)
            for instruction in program.instructions  # they write the positions of a store one after the other
            for _ in range(instruction.output_count)
        ]
        shown = [held for pair, held in zip(order, values, strict=True) if pair not in early]
        assert [[*compress(held, free)] for held in plainly[len(small) :]] == [[*compress(held, free)] for held in shown]
        compared += len(values)
    assert compared


POOLED = {
    "nodes": [
        {"op": "Const", "name": "x", "value": 0.5, "shape": [256, 256]},
        *({"op": "MatMul", "name": f"m{i}", "inputs": ["x", "x"]} for i in range(6)),
        {"op": "AddN", "name": "sum", "inputs": [f"m{i}" for i in range(6)]},
    ]
}


def test_kernels_in_a_pool_are_accounted_for_in_one_thread() -> None:
    types = {"Tin": ["float"], "Tout": ["float"]}
    call = {"op": "PartitionedCall", "name": "call", "inputs": ["sum"], "attrs": {**types, "f": {"func": "minus"}}}
    function = {
        "name": "minus",
        "inputs": [{"name": "a", "type": "float"}],
        "outputs": [{"name": "r", "type": "float", "value": "y:y:0"}],
        "nodes": [{"op": "Neg", "name": "y", "inputs": ["a"], "attrs": {"T": "float"}}],
    }
    file = graph_file_from_mapping({"nodes": [*POOLED["nodes"], call], "functions": [function]})
    devices = build_devices([TaskInventory()])
    records = []
    for threads in (1, 4):
        ledger = build_ledger(devices)
        config = Config(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=1)
        session = GraphSession(file.graph, devices, config, pools=ThreadPools(), ledger=ledger)
        (fetched,) = session.run(SessionStep((Fetch("call"),))).values
        check_figures(ledger)
        assert not ledger.left_over
        records.append((fetched.value.tobytes(), sum(source.in_use for source in ledger.all_sources())))
    assert records[0] == records[1]


def test_a_step_in_a_pool_is_accounted_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    accounted: list[Ledger] = []
    begun = Ledger.begin_step

    def begin(ledger: Ledger) -> None:
        accounted.append(ledger)
        begun(ledger)

    monkeypatch.setattr(Ledger, "begin_step", begin)
    devices = build_devices([TaskInventory()])
    queue = [
        {"op": "FIFOQueueV2", "name": "q", "attrs": {"component_types": ["float32"], "shapes": [[256, 256]]}},
        {"op": "QueueEnqueueV2", "name": "in", "inputs": ["q", "sum"]},
    ]
    for nodes, fetch, times in ((POOLED["nodes"], "sum", 1), ([*POOLED["nodes"], *queue], "in", 3)):
        accounted.clear()
        file = graph_file_from_mapping({"nodes": nodes})
        config = Config(inter_op_parallelism_threads=4)
        session = GraphSession(file.graph, devices, config, pools=ThreadPools(), ledger=build_ledger(devices))
        first, *others = [session.run(SessionStep((Fetch(fetch),))).values for _ in range(3)]
        assert all(is_same(one.value, other.value) for values in others for one, other in zip(first, values, strict=True))
        assert all(isinstance(prepared.executor, DataflowExecutor) for prepared in session._prepared.values())
        assert len(accounted) == times


def test_values_in_a_loop_are_dropped_where_their_memory_is(monkeypatch: pytest.MonkeyPatch) -> None:
    model = loop(20)
    file = graph_file_from_mapping(model.graph)
    devices = build_devices([TaskInventory()])
    ledger = build_ledger(devices)
    session = GraphSession(file.graph, devices, ledger=ledger)
    made: list[tuple[weakref.ref[Any], Buffer]] = []
    dropped = 0
    executed = StepAccount.executed_plain

    def watched(account: StepAccount, site: Site, plain: PlainKernel, memories: Any, value: Any) -> TensorMemory:
        nonlocal dropped
        found = executed(account, site, plain, memories, value)
        if isinstance(value, np.ndarray) and found.buffer is not None:
            made.append((weakref.ref(value), found.buffer))
        live = {buffer for source in ledger.all_sources() for buffer in source.live}
        latest = {buffer: reference for reference, buffer in made}
        at_hand = {id(memory.value) for memory in memories}
        for reference, buffer in made:
            if buffer not in live or latest[buffer] is not reference:  # freed, or written over
                assert reference() is None or id(reference()) in at_hand
                dropped += 1
        return found

    monkeypatch.setattr(StepAccount, "executed_plain", watched)
    session.run(SessionStep((Fetch("exit_x"),)))
    assert dropped
