"""Laws of the simulation, over random work: tasks, launches and transfers on streams, cores and links."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.machine.timelines.bandwidth_sharing import Flow, Link, transfer_ends
from placesim.machine.timelines.event_simulation import simulate
from placesim.machine.timelines.lower_bounds import bounds
from placesim.machine.timelines.timeline import Wait, WorkloadTimeline, critical_path, slices
from placesim.machine.timelines.workload import NOWHERE, Cores, LinkTransfer, Resource, SerialStream, Task, host_of

RELATIVE = 1e-9


class Work(NamedTuple):
    """What `simulate` takes."""

    tasks: list[Task | LinkTransfer]
    resources: list[Resource]
    links: list[Link]

    def simulated(self) -> WorkloadTimeline:
        return simulate(*self)

    def launched(self, number: int) -> bool:
        task = self.tasks[number]
        return isinstance(task, Task) and task.resource != NOWHERE and host_of(self.resources[task.resource]) != NOWHERE


TIMES = st.one_of(st.integers(1, 5).map(lambda n: n * 1e-5), st.floats(1e-6, 1e-2))
"""Some that often make ties, and some that don't."""


MOST_TASKS = 14
# hypothesis checks each strategy that is new to it, which takes longer than to draw from it: all are made once
FEW, COUNTS = st.integers(1, 4), st.integers(1, MOST_TASKS)
BANDWIDTHS, LATENCIES = st.sampled_from([1e9, 2e9, 1.2e10]), st.sampled_from([0.0, 1e-6, 2.5e-5])
ORDERS = {count: st.permutations(range(count)) for count in range(1, MOST_TASKS + 1)}
INPUTS = {count: st.lists(st.sampled_from(range(count)), max_size=3) for count in ORDERS}
"""Places of inputs among so many earlier tasks."""
KINDS, RESOURCES, CORES = st.integers(0, 3), st.integers(NOWHERE, 5), st.integers(1, 3)
LAUNCHES, BYTES = st.sampled_from([0.0, 1e-5, 3e-6]), st.sampled_from([0, 1000, 10**5, 10**7])
ROUTES = st.lists(st.integers(0, 2), max_size=3, unique=True)
STREAMS = st.lists(st.integers(4, 5), max_size=2, unique=True)


@st.composite
def works(draw: st.DrawFn) -> Work:
    """Cores 0 and 1; streams 2 and 3, launched by them; streams 4 and 5; three links.  Inputs come in any order of numbers."""
    resources: list[Resource] = [
        Cores("cores0", draw(FEW), draw(FEW)),
        Cores("cores1", draw(FEW), draw(FEW)),
        *(SerialStream("hosted0", 0), SerialStream("hosted1", 1), SerialStream("copy0"), SerialStream("copy1")),
    ]
    links = [Link(f"l{number}", draw(BANDWIDTHS), draw(LATENCIES)) for number in range(3)]
    count = draw(COUNTS)
    names = draw(ORDERS[count])
    tasks: dict[int, Task | LinkTransfer] = {}
    for place in range(count):
        inputs = tuple(names[earlier] for earlier in draw(INPUTS[place])) if place else ()
        if draw(KINDS):
            tasks[names[place]] = Task(draw(TIMES), draw(RESOURCES), inputs, draw(LAUNCHES), draw(CORES))
        else:
            route, streams = tuple(draw(ROUTES)), tuple(draw(STREAMS))
            tasks[names[place]] = LinkTransfer(draw(BYTES), route, inputs, streams)
    return Work([tasks[name] for name in range(count)], resources, links)


def path_seconds(tasks: Sequence[Task | LinkTransfer]) -> float:
    """The longest path through tasks without launches, transfers free, from its definition."""
    known: dict[int, float] = {}

    def end(number: int) -> float:
        if number not in known:
            task = tasks[number]
            before = max((end(source) for source in task.inputs), default=0.0)
            known[number] = before + (task.seconds if isinstance(task, Task) else 0.0)
        return known[number]

    return max(end(number) for number in range(len(tasks)))


@pytest.mark.slow
@given(works(), st.sampled_from([SerialStream("one"), Cores("one", 1, 1)]))
def test_on_one_device_with_one_thread_the_time_is_the_sum(work: Work, device: Resource) -> None:
    tasks = [task._replace(resource=0, cores=1) for task in work.tasks if isinstance(task, Task)]
    tasks = [
        task._replace(inputs=tuple(source for source in task.inputs if source < number)) for number, task in enumerate(tasks)
    ]
    assert simulate(tasks, [device]).seconds == pytest.approx(sum(task.seconds for task in tasks), rel=RELATIVE)


@pytest.mark.slow
@given(works())
def test_with_transfers_free_and_a_device_each_it_is_the_longest_path(work: Work) -> None:
    tasks = [
        task._replace(resource=number) if isinstance(task, Task) else LinkTransfer(task.bytes, (0,), task.inputs)
        for number, task in enumerate(work.tasks)
    ]
    own: list[Resource] = [SerialStream(str(number)) for number in range(len(tasks))]
    expected = pytest.approx(path_seconds(tasks), rel=RELATIVE)
    free = [Link("free", math.inf)]
    assert simulate(tasks, own, free).seconds == expected
    assert bounds(tasks, own, free).longest_path == expected


@pytest.mark.slow
@given(works(), st.sampled_from([2.0, 3.0, 7.0, 0.1, 1e6]))
def test_rates_times_k_give_times_divided_by_k(work: Work, k: float) -> None:
    faster = Work(
        [
            task._replace(seconds=task.seconds / k, launch=task.launch / k) if isinstance(task, Task) else task
            for task in work.tasks
        ],
        work.resources,
        [link._replace(bandwidth=link.bandwidth * k, latency=link.latency / k) for link in work.links],
    )
    timeline, scaled = work.simulated(), faster.simulated()
    assert [end * k for end in scaled.ends] == pytest.approx(timeline.ends, rel=RELATIVE)
    assert [start * k for start in scaled.starts] == pytest.approx(timeline.starts, rel=RELATIVE)


@pytest.mark.slow
@given(works())
def test_the_same_input_gives_the_same_bytes(work: Work) -> None:
    assert repr(work.simulated()) == repr(work.simulated())


@pytest.mark.slow
@given(works())
def test_no_stream_runs_two_things_at_once(work: Work) -> None:
    timeline = work.simulated()
    found = [it for it in slices(work.tasks, timeline) if isinstance(work.resources[it.resource], SerialStream)]
    for before, after in itertools.pairwise(found):
        assert before.resource != after.resource or before.end <= after.start


@pytest.mark.slow
@given(works())
def test_nothing_starts_before_its_inputs(work: Work) -> None:
    timeline = work.simulated()
    launches = timeline.launch_starts
    for number, task in enumerate(work.tasks):
        assert timeline.ends[number] >= timeline.starts[number]
        for source in task.inputs:
            assert timeline.starts[number] >= timeline.ends[source]
            other = work.tasks[source]
            if isinstance(task, Task) and work.launched(number):
                same_stream = isinstance(other, Task) and other.resource == task.resource
                assert launches[number] >= (timeline.launch_ends[source] if same_stream else timeline.ends[source])
        if work.launched(number):
            assert timeline.launch_ends[number] <= timeline.starts[number]


@pytest.mark.slow
@given(works())
def test_streams_serve_at_once_and_in_turn(work: Work) -> None:
    """On a stream without a host, what begins does so when it is ready or when what ran before it ends, in the order of being
    ready, and of numbers."""
    tasks = [task if isinstance(task, Task) else Task(1e-5, 5, task.inputs) for task in work.tasks]
    timeline = simulate(tasks, work.resources)
    ready = [max((timeline.ends[source] for source in task.inputs), default=0.0) for task in tasks]
    for stream in (4, 5):
        turns = sorted(
            (number for number, task in enumerate(tasks) if task.resource == stream), key=lambda n: timeline.starts[n]
        )
        free = 0.0
        for number in turns:
            assert timeline.starts[number] == pytest.approx(max(free, ready[number]), rel=RELATIVE)
            assert timeline.ends[number] == pytest.approx(timeline.starts[number] + tasks[number].seconds, rel=RELATIVE)
            free = timeline.ends[number]
        for before, after in itertools.pairwise(turns):
            assert ready[before] < ready[after] * (1 + RELATIVE) or before < after


@pytest.mark.slow
@given(works())
def test_cores_give_each_its_seconds(work: Work) -> None:
    """At most so many threads at once, and each task runs for as long as its seconds take at the speed of each moment."""
    timeline = work.simulated()
    for number in (0, 1):
        cores = work.resources[number]
        assert isinstance(cores, Cores)
        runs = []
        for name, task in enumerate(work.tasks):
            if isinstance(task, Task) and task.resource == number:
                runs.append((timeline.starts[name], timeline.ends[name], task.cores, task.seconds))
            elif isinstance(task, Task) and work.launched(name) and task.resource == number + 2:
                runs.append((timeline.launch_starts[name], timeline.launch_ends[name], 1, task.launch))
        moments = sorted({time for run in runs for time in run[:2]})
        had = [0.0] * len(runs)
        for begin, end in itertools.pairwise(moments):
            now = [place for place, run in enumerate(runs) if run[0] <= begin and end <= run[1]]
            if end - begin > RELATIVE * end:
                assert len(now) <= cores.threads
            demand = sum(runs[place][2] for place in now)
            for place in now:
                had[place] += (end - begin) * min(1.0, cores.cores / demand)
        assert had == pytest.approx([run[3] for run in runs], rel=1e-8, abs=1e-14)


@pytest.mark.slow
@given(works())
def test_transfers_end_as_links_alone_say(work: Work) -> None:
    timeline = work.simulated()
    sent = [(number, task) for number, task in enumerate(work.tasks) if isinstance(task, LinkTransfer)]
    flows = [Flow(timeline.starts[number], task.bytes, task.route) for number, task in sent]
    assert transfer_ends(work.links, flows) == pytest.approx([timeline.ends[number] for number, _ in sent], rel=RELATIVE)


@pytest.mark.slow
@given(works())
def test_the_critical_path_has_no_gap(work: Work) -> None:
    timeline = work.simulated()
    path = critical_path(work.tasks, timeline)
    assert (path[0].start, path[0].wait) == (0.0, Wait.NOTHING)
    assert path[-1].end == timeline.seconds == max(timeline.ends)
    for before, after in itertools.pairwise(path):
        assert after.start == pytest.approx(before.end, rel=RELATIVE)
        if after.wait is Wait.INPUT:
            assert before.task in work.tasks[after.task].inputs
        elif after.wait is Wait.LAUNCH:
            assert (before.task, before.is_launch, after.is_launch) == (after.task, True, False)
        else:
            assert after.wait is Wait.TURN


@pytest.mark.slow
@given(works())
def test_every_bound_holds(work: Work) -> None:
    limits = bounds(*work)
    at_least = work.simulated().seconds * (1 + RELATIVE)
    assert at_least >= limits.longest_path
    assert at_least >= limits.busiest_seconds
    assert at_least >= limits.most_loaded_seconds


@pytest.mark.slow
@given(works())
def test_nothing_is_busy_longer_than_all_takes(work: Work) -> None:
    timeline = work.simulated()
    most = timeline.seconds * (1 + RELATIVE)
    for resource, usage in zip(work.resources, timeline.usage, strict=True):
        assert usage.busy_seconds <= most
        assert usage.core_seconds <= most * (resource.cores if isinstance(resource, Cores) else 1)
    for number, traffic in enumerate(timeline.traffic):
        assert traffic.busy_seconds <= most
        assert traffic.bytes == sum(
            task.bytes * task.route.count(number) for task in work.tasks if isinstance(task, LinkTransfer)
        )
