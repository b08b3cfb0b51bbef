"""The event loop: worked cases, each small enough to be done by hand."""

from __future__ import annotations

import math

import pytest

from placesim.core.errors import InvalidArgumentError
from placesim.machine.timelines.bandwidth_sharing import Link, Traffic
from placesim.machine.timelines.event_simulation import simulate
from placesim.machine.timelines.lower_bounds import Bounds, bounds
from placesim.machine.timelines.timeline import PathStep, ResourceUsage, TaskSlice, Wait, critical_path, slices
from placesim.machine.timelines.workload import NOWHERE, CallingThread, Cores, LinkTransfer, Resource, SerialStream, Task

CPU = Cores("/cpu:0", cores=2, threads=2)
ONE_THREAD = Cores("/cpu:0", cores=2, threads=1)
STREAM = SerialStream("/gpu:0")


def spans(
    tasks: list[Task | LinkTransfer], resources: list[Resource], links: tuple[Link, ...] = ()
) -> list[tuple[float, float]]:
    timeline = simulate(tasks, resources, links)
    return list(zip(timeline.starts, timeline.ends, strict=True))


@pytest.mark.parametrize("resource", [STREAM, ONE_THREAD], ids=["stream", "one thread"])
def test_one_at_a_time_first_come_first_served(resource: Resource) -> None:
    tasks: list[Task | LinkTransfer] = [
        Task(1.0, 0, (2,)),
        Task(2.0, NOWHERE),
        Task(3.0, 0),
        Task(4.0, 0, (1,)),
        Task(5.0, 0),
    ]
    # 2 and 4 are ready at once, 3 at 2, 0 at 3
    assert spans(tasks, [resource]) == [(12.0, 13.0), (0.0, 2.0), (0.0, 3.0), (8.0, 12.0), (3.0, 8.0)]


def test_of_what_is_ready_in_one_moment_the_smaller_number_is_first() -> None:
    tasks: list[Task | LinkTransfer] = [Task(1.0, 0, (3,)), Task(1.0, 0, (2,)), Task(0.1 + 0.2), Task(0.3)]
    # 3 ends a rounding error before 2, and 0 comes first not for that
    swapped: list[Task | LinkTransfer] = [Task(1.0, 0, (2,)), Task(1.0, 0, (3,)), Task(0.1 + 0.2), Task(0.3)]
    for case in (tasks, swapped):
        starts = simulate(case, [STREAM]).starts
        assert starts[0] < starts[1]
        assert starts[0] >= 0.1 + 0.2


def test_threads_bound_what_runs_at_once() -> None:
    resource = Cores("/cpu:0", cores=8, threads=2)
    assert spans([Task(1.0, 0), Task(3.0, 0), Task(1.0, 0), Task(1.0, 0)], [resource]) == [(0, 1), (0, 3), (1, 2), (2, 3)]


def test_more_than_there_are_cores_slow_down_in_proportion() -> None:
    resource = Cores("/cpu:0", cores=2, threads=4)
    tasks: list[Task | LinkTransfer] = [
        Task(1.0, 0, cores=2),
        Task(1.0, 0, cores=2),
        Task(0.5, NOWHERE),
        Task(0.5, 0, (2,), cores=4),
    ]
    # at half speed until 0.5, at a quarter until 2.5, when the third is through; 0.25 seconds are left, at half speed
    assert spans(tasks, [resource])[:2] == [(0.0, 3.0), (0.0, 3.0)]
    assert spans(tasks, [resource])[3] == (0.5, 2.5)
    assert simulate(tasks, [resource]).usage == (ResourceUsage(3.0, 6.0),)


def test_a_calling_thread_runs_one_task_at_a_time_on_the_same_cores() -> None:
    tasks: list[Task | LinkTransfer] = [Task(1.0, 0, cores=2), Task(1.0, 1, cores=2), Task(0.5, 1)]
    # the first two at half speed; the third has a core of its own
    assert spans(tasks, [CPU, CallingThread("caller", 0)]) == [(0.0, 2.0), (0.0, 2.0), (2.0, 2.5)]
    assert spans([Task(1.0, 0), Task(1.0, 1)], [Cores("/cpu:0", 1, 1), CallingThread("caller", 0)]) == [(0.0, 2.0)] * 2


def test_two_devices_of_a_task_share_its_cores() -> None:
    assert simulate([Task(1.0, 0), Task(1.0, 0), Task(1.0, 0)], [Cores("/cpu:*", 2, 3)]).seconds == 1.5


def test_usage_counts_what_ran() -> None:
    timeline = simulate([Task(1.0, 0), Task(1.0, 0), Task(2.0, 1, (0,)), Task(1.0, 0, (2,))], [CPU, STREAM])
    assert timeline.usage == (ResourceUsage(2.0, 3.0), ResourceUsage(2.0, 2.0))
    assert timeline.seconds == 4.0


def test_launches_take_the_host_and_the_stream_goes_on() -> None:
    tasks: list[Task | LinkTransfer] = [Task(5.0, 0, launch=1.0), Task(5.0, 0, (0,), launch=1.0), Task(1.0, 1, (1,))]
    timeline = simulate(tasks, [SerialStream("/gpu:0", host=1), ONE_THREAD])
    assert list(zip(timeline.launch_starts, timeline.launch_ends, strict=True)) == [(0, 1), (1, 2), (11, 11)]
    assert list(zip(timeline.starts, timeline.ends, strict=True)) == [(1, 6), (6, 11), (11, 12)]
    assert critical_path(tasks, timeline) == (
        PathStep(0, True, 0, 1, Wait.NOTHING),
        PathStep(0, False, 1, 6, Wait.LAUNCH),
        PathStep(1, False, 6, 11, Wait.INPUT),
        PathStep(2, False, 11, 12, Wait.INPUT),
    )


def test_a_launch_waits_for_inputs_from_elsewhere() -> None:
    gpus: list[Resource] = [SerialStream("/gpu:0", host=2), SerialStream("/gpu:1", host=2), Cores("/cpu:0", 4, 4)]
    timeline = simulate([Task(5.0, 0, launch=1.0), Task(5.0, 1, (0,), launch=1.0)], gpus)
    assert (timeline.launch_starts, timeline.starts) == ((0, 6), (1, 7))


def test_the_order_of_a_stream_is_that_of_the_launches() -> None:
    gpu: list[Resource] = [SerialStream("/gpu:0", host=1), CPU]
    timeline = simulate([Task(1.0, 0, launch=3.0), Task(1.0, 0, launch=1.0), Task(1.0, 0, launch=1.0)], gpu)
    assert timeline.starts == (3, 1, 2)


def test_a_transfer_takes_both_its_streams_and_shares_its_links() -> None:
    out, into, other = 0, 1, 2
    copies: list[Resource] = [SerialStream("out"), SerialStream("into"), SerialStream("other")]
    link = Link("pcie", 1e9, 0.5)
    tasks: list[Task | LinkTransfer] = [
        LinkTransfer(1e9, (0,), (), (out, into)),
        LinkTransfer(1e9, (0,), (), (other,)),
        LinkTransfer(1e9, (0,), (), (into, other)),
        Task(1.0, other),
        LinkTransfer(1e9, (0,), (2,), ()),
    ]
    # 0 and 1 have half of the link each from 0.5 on; 2 has its turn when both are through, and 3 behind it
    timeline = simulate(tasks, copies, [link])
    assert list(zip(timeline.starts, timeline.ends, strict=True)) == [(0, 2.5), (0, 2.5), (2.5, 4), (4, 5), (4, 5.5)]
    assert timeline.traffic == (Traffic(4e9, 4.0),)
    assert timeline.usage == (ResourceUsage(2.5, 2.5), ResourceUsage(4.0, 4.0), ResourceUsage(5.0, 5.0))
    assert [(step.task, step.wait) for step in critical_path(tasks, timeline)] == [
        (0, Wait.NOTHING),
        (2, Wait.TURN),
        (4, Wait.INPUT),
    ]
    assert slices(tasks, timeline) == (
        TaskSlice(0, out, 0, 2.5),
        TaskSlice(0, into, 0, 2.5),
        TaskSlice(2, into, 2.5, 4),
        TaskSlice(1, other, 0, 2.5),
        TaskSlice(2, other, 2.5, 4),
        TaskSlice(3, other, 4, 5),
    )


def test_control_edges_cost_latency_only() -> None:
    assert spans([Task(1.0), LinkTransfer(0, (0,), (0,)), Task(1.0, NOWHERE, (1,))], [], (Link("net", 1e9, 0.25),))[2] == (
        1.25,
        2.25,
    )


def test_transfers_that_meet_on_a_link_begin_and_end_among_tasks() -> None:
    tasks: list[Task | LinkTransfer] = [
        Task(1.0),
        LinkTransfer(4e9, (0,), ()),
        LinkTransfer(1e9, (0,), (0,)),
        Task(0.5, 0, (2,)),
    ]
    # the first has moved 1 GB when the second begins; each has half until 3, when 2 GB of the first are left
    assert spans(tasks, [STREAM], (Link("net", 1e9),)) == [(0, 1), (0, 5), (1, 3), (3, 3.5)]


def test_the_critical_path_tells_input_from_turn() -> None:
    tasks: list[Task | LinkTransfer] = [Task(2.0, 0), Task(1.0, 0), Task(1.0, 1, (1,))]
    timeline = simulate(tasks, [STREAM, CPU])
    assert critical_path(tasks, timeline) == (
        PathStep(0, False, 0, 2, Wait.NOTHING),
        PathStep(1, False, 2, 3, Wait.TURN),
        PathStep(2, False, 3, 4, Wait.INPUT),
    )


def test_nothing_to_do_takes_no_time() -> None:
    timeline = simulate([], [SerialStream("/gpu:0", host=1), CPU], [Link("net", 1e9)])
    assert (timeline.seconds, timeline.starts, timeline.usage) == (0.0, (), (ResourceUsage(0, 0), ResourceUsage(0, 0)))
    assert critical_path([], timeline) == ()
    assert bounds([]) == Bounds(0, 0, NOWHERE, 0, NOWHERE)


def test_bounds_say_what_they_come_from() -> None:
    resources: list[Resource] = [Cores("/cpu:0", cores=2, threads=1), Cores("/cpu:1", cores=2, threads=4), SerialStream("out")]
    links = [Link("slow", 1e9, 1.0), Link("fast", 1e10)]
    tasks: list[Task | LinkTransfer] = [
        Task(1.0, 0),
        Task(1.0, 0),
        Task(3.0, 1, cores=2),
        LinkTransfer(3e9, (0, 1), (0, 2), (2,)),
        Task(1.5, 1, (3,)),
    ]
    assert bounds(tasks, resources, links) == Bounds(4.5, 4.0, 2, 3.0, 0)
    assert bounds(tasks[:3], resources, links)[1:3] == (3.0, 1)
    assert bounds(tasks[:2], resources, links)[1:3] == (2.0, 0)


def test_the_longest_path_knows_that_launches_overlap() -> None:
    gpu: list[Resource] = [SerialStream("/gpu:0", host=1), CPU]
    tasks: list[Task | LinkTransfer] = [Task(5.0, 0, launch=1.0), Task(1.0, 0, (0,), launch=2.0), Task(1.0, 1, (1,))]
    assert bounds(tasks, gpu).longest_path == 8.0
    assert simulate(tasks, gpu).seconds == 8.0


TASK = Task(1.0)


@pytest.mark.parametrize(
    ("tasks", "resources", "said"),
    [
        ([Task(-1.0)], [], "task 0 takes -1.0 s and 0.0 s to launch: both must be finite, 0 or more"),
        ([TASK, Task(math.nan)], [], "task 1 takes nan s"),
        ([Task(math.inf)], [], "task 0 takes inf s"),
        ([Task(1.0, launch=-2.0)], [], "1.0 s and -2.0 s to launch"),
        ([Task(1.0, 1)], [STREAM], "task 0 is on resource 1: there are 1, numbered from 0"),
        ([Task(1.0, -2)], [STREAM], "task 0 is on resource -2"),
        ([Task(1.0, 0, cores=0)], [CPU], "task 0 asks for 0 cores: it must be 1 or more"),
        ([Task(1.0, 0, (1,))], [CPU], "task 0 has the input 1: there are 1 tasks, numbered from 0"),
        ([Task(1.0, 0, (-1,))], [CPU], "task 0 has the input -1"),
        ([LinkTransfer(1, (), (), (0,))], [CPU], "transfer 0 takes resource 0, which is not a stream without a host"),
        (
            [LinkTransfer(1, (), (), (0,))],
            [SerialStream("s", 1), CPU],
            "transfer 0 takes resource 0, which is not a stream without a host",
        ),
        ([LinkTransfer(1, (), (), (1,))], [STREAM], "transfer 0 takes resource 1, which is not a stream without a host"),
        ([LinkTransfer(1, (0,))], [], "transfer 0 takes link 0: there are 0, numbered from 0"),
        ([LinkTransfer(-1)], [], "transfer 0 has -1 bytes"),
        ([], [Cores("/cpu:0", 0, 1)], "'/cpu:0' has 0 cores and 1 threads: both must be 1 or more"),
        ([], [Cores("/cpu:0", 1, 0)], "'/cpu:0' has 1 cores and 0 threads"),
        ([], [SerialStream("/gpu:0", 0)], "'/gpu:0' is launched by resource 0, which has no cores"),
        ([], [SerialStream("/gpu:0", 7)], "'/gpu:0' is launched by resource 7, which has no cores"),
        ([], [CPU, CallingThread("caller", 1)], "'caller' runs on resource 1, which has no cores"),
        ([TASK, Task(1.0, NOWHERE, (1,))], [], "cycle of tasks: 1 -> 1"),
        (
            [Task(1.0, 0, (2,)), Task(1.0, 0, (0,)), Task(1.0, 0, (1,)), Task(1.0, 0, (0,))],
            [CPU],
            "cycle of tasks: 0 -> 2 -> 1 -> 0",
        ),
        ([Task(1.0, 0, (1,)), Task(1.0, 0, (0,))], [SerialStream("/gpu:0", 1), CPU], "cycle of tasks: 0 -> 1 -> 0"),
        ([Task(1.0, NOWHERE, ((i + 1) % 20,)) for i in range(20)], [], r"0 -> 1 -> .* -> 9 -> \.\.\."),
    ],
)
def test_what_makes_no_sense_is_refused(tasks: list[Task | LinkTransfer], resources: list[Resource], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        simulate(tasks, resources)
