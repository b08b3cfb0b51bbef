"""A whole simulated step, worked out by hand: one host thread, two GPUs, and every figure of the machine known."""

from __future__ import annotations

from math import hypot
from typing import Any

import pytest

from placesim.formats.sources.loading import load
from placesim.machine.gpu_models import GPU_MODELS, GpuFigures, GpuModel
from placesim.machine.host_models import HostModel
from placesim.machine.links import LATENCIES, PCIE_BYTES_PER_LANE
from placesim.machine.options import make_options
from placesim.machine.timelines.trace_events import Arrow, Count, TraceSlice, Track
from placesim.prediction.cost_formulas import machine_of, predict, start_seconds
from placesim.prediction.hosts import Host
from placesim.prediction.processors import Evidence, gpu_processor
from placesim.prediction.simulated_steps import (
    BOARD_DEVIATIONS,
    DEVIATION_SCALE,
    RECENT_DEVIATION_SCALE,
    SimulatedStep,
    board_deviation,
    deviation_scale,
)
from placesim.prediction.spans import BeginCause, PathSpan, step_spans
from placesim.prediction.step_tasks import StepCosts
from placesim.prediction.time_breakdown import COMPUTE, LAUNCH, TRANSFER, TimeStudy
from placesim.prediction.work_amounts import StreamedBytes
from placesim.studies.time_study import find_costs
from tests.prediction.test_spans import drawn
from tests.prediction.test_steps import ONE_THREAD, recorded, study

DISPATCH, LAUNCHING, BYTES = 2e-6, 8e-6, 4_000_000
GRAPH: dict[str, Any] = {
    "devices": {
        "cpu": 2,
        "host": {"cores": 4, "flops": 4e11, "bandwidth": 4e10, "dispatch": DISPATCH, "launch": LAUNCHING},
        "gpu": {"count": 2, "model": "Tesla K80"},
    },
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [1000, 1000]},
        {"op": "Neg", "name": "s/a", "inputs": ["x"], "device": "/gpu:0"},
        {"op": "Exp", "name": "s/b", "inputs": ["s/a"], "device": "/gpu:1"},
        {"op": "Shape", "name": "n", "inputs": ["s/a"], "device": "/gpu:0"},
        {"op": "Fill", "name": "f", "inputs": ["n", 1.0], "device": "/cpu:0"},
        {"op": "Mul", "name": "m", "inputs": ["f", "s/b"], "device": "/cpu:0"},
    ],
    "fetch": ["m"],
}
CPU, CPU1, GPU0, GPU1 = (f"/job:localhost/replica:0/task:0/device:{name}" for name in ("CPU:0", "CPU:1", "GPU:0", "GPU:1"))
PCIE = PCIE_BYTES_PER_LANE[3] * 16
MOVED = BYTES / PCIE
LATENCY = LATENCIES["pcie"]
ONE_WAY, BOTH_WAYS = LATENCY + MOVED, 2 * LATENCY + MOVED
KERNEL = predict(StreamedBytes("elementwise", 2.0 * BYTES), gpu_processor(GPU_MODELS["Tesla K80"])).seconds
# a core's quarter of the bandwidth, of which streams reach four fifths
FILL, MULTIPLY = DISPATCH + (8 + 4 + BYTES) / 8e9, DISPATCH + 3 * BYTES / 8e9
A = 2 * DISPATCH + ONE_WAY + LAUNCHING  # when a begins on its GPU
FILLED = A + KERNEL + FILL
B = FILLED + LAUNCHING
M = B + KERNEL + ONE_WAY
END = M + MULTIPLY + DISPATCH
NODES = [
    ("f/value", CPU, "host", 0.0, DISPATCH),
    ("_arg_x_0_0", CPU, "host", DISPATCH, 2 * DISPATCH),
    ("s/a", GPU0, "GPU:0 compute", A, A + KERNEL),
    # a shape is known when what it is of is, and lies in the host's memory
    ("n", GPU0, "GPU:0 compute", A + KERNEL, A + KERNEL),
    # the host fills before it launches b, whose input has arrived meanwhile
    ("s/b", GPU1, "GPU:1 compute", B, B + KERNEL),
    ("f", CPU, "host", A + KERNEL, FILLED),
    ("m", CPU, "host", M, M + MULTIPLY),
    ("_retval_m_0_0", CPU, "host", M + MULTIPLY, END),
]
TRANSFERS = [
    ("_arg_x_0_0", CPU, GPU0, 2 * DISPATCH, 2 * DISPATCH + ONE_WAY, ("GPU:0 from host",)),
    ("s/a", GPU0, GPU1, A + KERNEL, A + KERNEL + BOTH_WAYS, ("GPU:0 between GPUs", "GPU:1 between GPUs")),
    ("s/b", GPU1, CPU, B + KERNEL, M, ("GPU:1 to host",)),
]
PATH = [
    ("f/value", CPU, COMPUTE, "nothing"),
    ("_arg_x_0_0", CPU, COMPUTE, "turn"),
    ("_arg_x_0_0", GPU0, TRANSFER, "input"),
    ("s/a", GPU0, LAUNCH, "input"),
    ("s/a", GPU0, COMPUTE, "launch"),
    ("f", CPU, COMPUTE, "input"),
    ("s/b", GPU1, LAUNCH, "turn"),
    ("s/b", GPU1, COMPUTE, "launch"),
    ("s/b", CPU, TRANSFER, "input"),
    ("m", CPU, COMPUTE, "input"),
    ("_retval_m_0_0", CPU, COMPUTE, "input"),
]


@pytest.fixture(scope="module")
def step() -> TimeStudy:
    return study(GRAPH, **ONE_THREAD, tells_helps=True)


def test_nodes_and_transfers_begin_as_soon_as_they_can(step: TimeStudy) -> None:
    assert [(run.node, run.device, run.stream) for run in step.nodes] == [row[:3] for row in NODES]
    assert [(run.start, run.end) for run in step.nodes] == [pytest.approx(row[3:]) for row in NODES]
    assert [(run.tensor, run.sender, run.receiver, run.streams) for run in step.transfers] == [
        (*row[:3], row[5]) for row in TRANSFERS
    ]
    assert [(run.start, run.end) for run in step.transfers] == [pytest.approx(row[3:5]) for row in TRANSFERS]
    assert {run.bytes for run in step.transfers} == {BYTES}
    assert step.step.seconds == pytest.approx(END)
    assert not any(run.is_uncertain for run in step.nodes)


def test_the_path_is_what_the_end_waited_for(step: TimeStudy) -> None:
    assert [(part.node, part.device, part.kind, part.wait) for part in step.critical_path] == PATH
    assert {part.kind for part in step.critical_path} == {"compute", "launch", "transfer"}
    times = [0.0, DISPATCH, 2 * DISPATCH, 2 * DISPATCH + ONE_WAY, A, A + KERNEL, FILLED, B, B + KERNEL, M, M + MULTIPLY, END]
    assert [part.start for part in step.critical_path] == pytest.approx(times[:-1])
    assert [part.end for part in step.critical_path] == pytest.approx(times[1:])


def test_devices_and_links_are_busy_with_what_they_do(step: TimeStudy) -> None:
    host = 3 * DISPATCH + FILL + MULTIPLY + 2 * LAUNCHING
    copies = ONE_WAY + BOTH_WAYS
    assert [(row.device, row.processor, row.nodes, row.bytes_in, row.bytes_out) for row in step.devices] == [
        # the shape moves from the GPU's host memory: nothing is copied, and its eight bytes count
        (CPU, "host", 5, BYTES + 8, BYTES),
        (CPU1, "host", 0, 0, 0),
        (GPU0, "Tesla K80", 2, BYTES, BYTES + 8),
        (GPU1, "Tesla K80", 1, BYTES, BYTES),
    ]
    # a shape is launched, too, which takes as long as a dispatch
    assert [row.busy for row in step.devices] == pytest.approx([host + DISPATCH, 0.0, KERNEL, KERNEL])
    assert [row.copies for row in step.devices] == pytest.approx([0.0, 0.0, copies, copies])
    assert [(row.peak == 0, row.limit is None) for row in step.devices] == [
        (False, True), (True, True), (False, False), (False, False)
    ]  # fmt: skip
    assert [(row.name, row.bandwidth, row.latency, row.bytes) for row in step.links] == [
        (f"GPU:{gpu} PCIe {way}", PCIE, LATENCY, BYTES) for gpu in (0, 1) for way in ("in", "out")
    ]
    assert [row.busy for row in step.links] == pytest.approx([MOVED] * 4)


def test_bounds_and_interval_are_those_of_the_tasks(step: TimeStudy) -> None:
    path = DISPATCH + LAUNCHING + KERNEL + FILL + MULTIPLY + DISPATCH
    assert {bound.kind: bound.what for bound in step.bounds} == {
        "path": "critical path with free transfers", "resource": "host", "link": "GPU:0 PCIe in"
    }  # fmt: skip
    assert {bound.kind: bound.seconds for bound in step.bounds} == pytest.approx(
        {"path": path, "resource": step.devices[0].busy, "link": MOVED}
    )
    assert step.bound.kind == "path"
    slow = {run.node: run.high - run.seconds for run in step.nodes}
    fast = {run.node: run.seconds - run.low for run in step.nodes}
    on_path = ("s/a", "f", "s/b", "m")
    board = BOARD_DEVIATIONS["measured"] * 2 * KERNEL  # of both GPUs
    assert step.step.high - END == pytest.approx(hypot(sum(slow[node] for node in on_path), board))
    assert END - step.step.low == pytest.approx(hypot(sum(fast[node] for node in on_path), board))


@pytest.mark.parametrize(
    ("ops", "share"), [(["Neg"] * 9, 1.0), (["Neg", "Abs", "Exp", "Tanh", "Sqrt", "Sin", "Cos", "Log", "Ceil"], 1 / 3)]
)
def test_kernels_of_a_gpu_deviate_independently_and_equal_ones_together(ops: list[str], share: float) -> None:
    """Of nine different kernels of the same size, the root of the sum of squares is a third of the sum."""
    nodes: list[dict[str, Any]] = [{"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [1000, 1000]}]
    names = [f"n{number}" for number in range(len(ops))]
    nodes += [{"op": op, "name": name, "inputs": ["x"], "device": "/gpu:0"} for op, name in zip(ops, names, strict=True)]
    step, machine = recorded({**GRAPH, "nodes": nodes, "fetch": names})
    simulated = SimulatedStep(step, StepCosts(machine).placed(step), machine)
    assert simulated.independent_shares() == pytest.approx((share, share))
    seconds, (low, high), reached = simulated.seconds, simulated.extremes, min(1.0, DEVIATION_SCALE * share)
    assert low < seconds < high
    board = BOARD_DEVIATIONS["measured"] * sum(run.seconds for run in simulated.nodes() if run.stream == "GPU:0 compute")
    assert 0 < board < BOARD_DEVIATIONS["measured"] * seconds
    shorter, longer = hypot(reached * (seconds - low), board), hypot(reached * (high - seconds), board)
    assert simulated.interval == pytest.approx((seconds - shorter, seconds + longer))


def test_kernels_that_a_library_has_all_or_none_of_deviate_together() -> None:
    """Convolutions of 5 by 5 of several sizes deviate as one kernel, those of 1 by 1 independently of each other."""
    shares = []
    for side in (1, 5):
        nodes: list[dict[str, Any]] = [{"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [8, 32, 32, 64]}]
        names = [f"n{number}" for number in range(4)]
        for number, name in enumerate(names):
            nodes.append(
                {"op": "Placeholder", "name": f"f{number}", "dtype": "float32", "shape": [side, side, 64, 64 + number]}
            )
            attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
            nodes.append({"op": "Conv2D", "name": name, "inputs": ["x", f"f{number}"], "attrs": attrs, "device": "/gpu:0"})
        step, machine = recorded({**GRAPH, "nodes": nodes, "fetch": names})
        shares.append(SimulatedStep(step, StepCosts(machine).placed(step), machine).independent_shares())
    assert shares[0] == pytest.approx((0.5, 0.5), rel=0.02)
    assert shares[1] == (1.0, 1.0)


@pytest.mark.parametrize(
    ("names", "scale"),
    [
        (["GeForce RTX 4090", "NVIDIA L4"], RECENT_DEVIATION_SCALE),
        (["GeForce RTX 4090", "Tesla K80"], DEVIATION_SCALE),
        (["H100-SXM5-80GB"], DEVIATION_SCALE),
        (["Tesla T4"], DEVIATION_SCALE),
        ([], 1.0),
    ],
)
def test_steps_of_recent_gpus_deviate_less(names: list[str], scale: float) -> None:
    assert deviation_scale(gpu_processor(GPU_MODELS[name]) for name in names) == scale


@pytest.mark.parametrize(
    ("names", "evidence"),
    [
        # by other boards with the same chips
        (["Tesla V100-SXM2-32GB", "Tesla P100-SXM2-16GB", "A100-SXM4-80GB", "GeForce GTX 1080"], "measured"),
        (["GeForce RTX 3090", "GeForce RTX 5090"], "measured"),  # by steps of networks
        (["GeForce RTX 4090"], "similar"),
        (["B200-SXM6-180GB"], "similar"),  # nine products
        (["Tesla T4", "NVIDIA A10"], "similar"),
    ],
)
def test_a_gpu_without_measurements_deviates_more(names: list[str], evidence: Evidence) -> None:
    assert board_deviation(gpu_processor(GPU_MODELS[name]) for name in names) == BOARD_DEVIATIONS[evidence]


def test_hosts_alone_do_not_deviate_with_a_board() -> None:
    assert board_deviation([]) == 0.0


@pytest.mark.parametrize(
    "figures",
    [
        GpuFigures(),
        GpuFigures(float16=1.8e14, bfloat16=1.8e14, multiprocessors=104, clock_mhz=1700, memory_kind="stacked"),  # MI250
    ],
)
def test_a_gpu_whose_chip_the_catalogue_lacks_deviates_most(figures: GpuFigures) -> None:
    own = gpu_processor(GpuModel("Acme X1", 2**36, "8.0", 2.26e13, 1.64e12, figures=figures))
    known = GPU_MODELS["A100-PCIE-40GB"]
    assert own.evidence == "none"
    assert board_deviation([own, gpu_processor(known)]) == BOARD_DEVIATIONS["none"] > BOARD_DEVIATIONS["similar"]
    # the figures of a model of the catalogue may differ
    assert gpu_processor(known._replace(name="Acme X1", bandwidth=1.4e12)).evidence == "measured"


_WIDER = {
    "GeForce RTX 3090": [],
    "GeForce RTX 4090": ["few or no kernels were measured on GeForce RTX 4090: the interval is wider"],
    "Acme X1": ["no model of the catalogue has the chip of Acme X1: the interval is much wider"],
}


@pytest.mark.parametrize(
    ("name", "evidence"), [("GeForce RTX 3090", "measured"), ("GeForce RTX 4090", "similar"), ("Acme X1", "none")]
)
def test_a_step_deviates_with_its_gpu_and_says_so(name: str, evidence: Evidence) -> None:
    nodes: list[dict[str, Any]] = [{"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [1000, 1000]}]
    nodes.append({"op": "Neg", "name": "n", "inputs": ["x"], "device": "/gpu:0"})
    model = name if name in GPU_MODELS else {"name": name, "flops": 2e13, "bandwidth": 1e12}
    graph = {"devices": {"cpu": 1, "gpu": {"count": 2, "model": model}}, "nodes": nodes, "fetch": ["n"]}
    assert [line for line in study(graph).assumptions if "wider" in line] == _WIDER[name]
    step, machine = recorded(graph)
    simulated = SimulatedStep(step, StepCosts(machine).placed(step), machine)
    kernel = next(run.seconds for run in simulated.nodes() if run.node == "n")
    assert simulated.board_deviation == pytest.approx(BOARD_DEVIATIONS[evidence] * kernel)


def test_nodes_of_a_host_deviate_together() -> None:
    names = [f"n{number}" for number in range(8)]
    nodes: list[dict[str, Any]] = [{"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [1000, 1000]}]
    nodes += [{"op": "Slice", "name": f"s{number}", "inputs": ["x", [0, 0], [100 * (number + 1), 1000]]} for number in range(8)]
    nodes += [{"op": "Neg", "name": name, "inputs": [f"s{number}"]} for number, name in enumerate(names)]
    step, machine = recorded({"devices": {"cpu": 1}, "nodes": nodes, "fetch": names})
    simulated = SimulatedStep(step, StepCosts(machine).placed(step), machine)
    assert simulated.independent_shares() == (1.0, 1.0)
    assert simulated.interval == simulated.extremes


def test_without_a_part_the_step_is_as_much_shorter(step: TimeStudy) -> None:
    found = {(one.kind, one.what): one.seconds for one in step.helps}
    assert found["node", "m"] == pytest.approx(END - MULTIPLY)
    assert found["link", "GPU:0 PCIe in"] == found["link", "GPU:1 PCIe out"] == pytest.approx(END - ONE_WAY)
    # what arrives while the host fills helps nobody
    assert found["link", "GPU:1 PCIe in"] == found["link", "GPU:0 PCIe out"] == pytest.approx(END)
    # the shape is launched after the kernel's launch, and what fills waits for that
    assert found["resource", "GPU:0 compute"] == pytest.approx(END - KERNEL + DISPATCH)
    assert [one.seconds for one in step.helps] == sorted(one.seconds for one in step.helps)


def test_spans_say_what_let_each_begin() -> None:
    traced, spans = drawn(GRAPH, **ONE_THREAD)
    assert traced.trace is not None
    assert spans == step_spans(traced.trace)
    names = [lane.name for group in spans.groups for lane in group.lanes]
    assert names == [
        "host",
        *(f"GPU:{n} {label}" for n in (0, 1) for label in ("compute", "from host", "to host", "between GPUs")),
    ]
    number = {(span.name, span.op or span.device): place for place, span in enumerate(spans.spans)}
    sent, shared, back = ("_arg_x_0_0", GPU0), ("s/a", GPU1), ("s/b", CPU)
    nothing = BeginCause("nothing", -1)
    begins = {
        ("f/value", "Const"): (nothing, nothing, []),
        ("_arg_x_0_0", "_Arg"): (BeginCause("turn", number["f/value", "Const"]), nothing, []),
        sent: (BeginCause("input", number["_arg_x_0_0", "_Arg"]), nothing, [("_arg_x_0_0", "_Arg")]),
        ("s/a", "Neg"): (BeginCause("launch", -1), BeginCause("input", number[sent]), [sent]),
        shared: (BeginCause("input", number["s/a", "Neg"]), nothing, [("s/a", "Neg")]),
        ("s/b", "Exp"): (BeginCause("launch", -1), BeginCause("turn", number["f", "Fill"]), [shared]),
        back: (BeginCause("input", number["s/b", "Exp"]), nothing, [("s/b", "Exp")]),
        ("f", "Fill"): (BeginCause("input", number["n", "Shape"]), nothing, [("n", "Shape"), ("f/value", "Const")]),
        ("m", "Mul"): (BeginCause("input", number[back]), nothing, [("f", "Fill"), back]),
    }
    for key, (begin, launch, inputs) in begins.items():
        span = spans.spans[number[key]]
        assert (span.begin, span.launch) == (begin, launch), key
        assert list(span.inputs) == [number[source] for source in inputs], key
    a = spans.spans[number["s/a", "Neg"]]
    assert (a.launch_start, a.launch_end, a.start) == pytest.approx((A - LAUNCHING, A, A))
    assert (a.sender, a.bytes, a.taken[0][0], a.made[0][0]) == ("", 0, (1000, 1000), (1000, 1000))
    moved = spans.spans[number[shared]]
    assert (moved.sender, moved.bytes, [names[lane] for lane in moved.lanes]) == (
        GPU0, BYTES, ["GPU:0 between GPUs", "GPU:1 between GPUs"]
    )  # fmt: skip
    assert (moved.seconds, moved.low, moved.high) == pytest.approx((BOTH_WAYS,) * 3)
    assert moved.launch_start == moved.launch_end == moved.start
    assert {names[span.host_lane] for span in spans.spans} == {"host"}
    expected = [
        PathSpan(number[node, device if kind == TRANSFER else ops], kind == LAUNCH, wait)
        for (node, device, kind, wait) in PATH
        for ops in [next((span.op for span in spans.spans if span.name == node and span.op), "")]
    ]
    assert list(spans.path) == expected


def test_work_is_all_that_is_done_one_after_another() -> None:
    executed, machine = recorded(GRAPH, **ONE_THREAD)
    nodes = 4 * DISPATCH + 2 * (LAUNCHING + KERNEL) + FILL + MULTIPLY
    assert StepCosts(machine).work_seconds(executed) == pytest.approx(nodes + 2 * ONE_WAY + BOTH_WAYS)


# --- its trace


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def test_a_trace_has_a_row_for_each_thread_and_stream_that_does_something() -> None:
    study, _ = drawn(GRAPH, **ONE_THREAD)
    assert study.trace is not None
    records = list(study.trace.records())
    tracks = [record for record in records if isinstance(record, Track)]
    on = {device: f"{device} Compute" for device in (CPU, GPU0, GPU1)}
    assert [(track.process, track.thread) for track in tracks] == [
        ("Steps", "step"), ("Steps", "critical path"), (on[CPU], "host thread 0"),
        *(
            row
            for device, gpu, copy in ((GPU0, "GPU:0", "from host"), (GPU1, "GPU:1", "to host"))
            for row in (
                (on[device], "host thread 0"),
                (f"{device}/stream:all Compute", f"{gpu} compute"),
                (f"{device}/memcpy Compute", f"{gpu} {copy}"),
                (f"{device}/memcpy Compute", f"{gpu} between GPUs"),
            )
        ),
    ]  # fmt: skip
    slices = [record for record in records if isinstance(record, TraceSlice)]
    assert (slices[0].name, slices[0].start, slices[0].end, slices[0].args) == (
        "step 0", 0, ns(END), {"seconds": study.step.seconds}
    )  # fmt: skip
    path = [shown for shown in slices if shown.category == "Path"]
    kinds = {COMPUTE: "compute", LAUNCH: "launch", TRANSFER: "transfer"}
    assert [(shown.args["kind"], shown.args["waited for"]) for shown in path] == [(kinds[row[2]], row[3]) for row in PATH]
    # a transfer has the name that the partitioner gave it
    named = [shown.args["name"].partition("/_")[0] for shown in path]
    assert named == [row[0] for row in PATH]
    assert [shown.name for shown in path] == [shown.args["name"] for shown in path]
    assert [shown.start for shown in path] == [ns(part.start) for part in study.critical_path]
    ops = [(s.name, s.args["name"], s.track.process.removesuffix(" Compute"), s.start, s.end) for s in slices if "op" in s.args]
    launched = A - LAUNCHING, A, A + DISPATCH
    assert ops == [
        ("Const", "f/value", CPU, 0, ns(DISPATCH)),
        ("_Arg", "_arg_x_0_0", CPU, ns(DISPATCH), ns(2 * DISPATCH)),
        ("MEMCPYHtoD", "_arg_x_0_0", f"{GPU0}/memcpy", ns(2 * DISPATCH), ns(launched[0])),
        ("Neg", "s/a", GPU0, ns(launched[0]), ns(launched[1])),
        ("Neg", "s/a", f"{GPU0}/stream:all", ns(A), ns(A + KERNEL)),
        # what is only dispatched has its launch
        ("Shape", "n", GPU0, ns(launched[1]), ns(launched[2])),
        ("MEMCPYPtoP", "s/a", f"{GPU0}/memcpy", ns(A + KERNEL), ns(A + KERNEL + BOTH_WAYS)),
        ("MEMCPYPtoP", "s/a", f"{GPU1}/memcpy", ns(A + KERNEL), ns(A + KERNEL + BOTH_WAYS)),
        ("Exp", "s/b", GPU1, ns(FILLED), ns(B)),
        ("Exp", "s/b", f"{GPU1}/stream:all", ns(B), ns(B + KERNEL)),
        ("Fill", "f", CPU, ns(A + KERNEL), ns(FILLED)),
        ("MEMCPYDtoH", "s/b", f"{GPU1}/memcpy", ns(B + KERNEL), ns(M)),
        ("Mul", "m", CPU, ns(M), ns(M + MULTIPLY)),
        ("_Retval", "_retval_m_0_0", CPU, ns(M + MULTIPLY), ns(END)),
    ]
    copy = next(shown for shown in slices if shown.name == "MEMCPYPtoP")
    assert copy.args == {"name": "s/a", "op": "MEMCPYPtoP", "bytes": BYTES, "from": GPU0, "to": GPU1}
    arrows = [(r.name, r.source.thread, r.target.thread) for r in records if isinstance(r, Arrow)]
    assert arrows == [
        ("_arg_x_0_0", "host thread 0", "GPU:0 from host"),
        ("_arg_x_0_0", "GPU:0 from host", "GPU:0 compute"),
        ("s/a", "GPU:0 compute", "GPU:0 between GPUs"),
        ("s/a", "GPU:0 between GPUs", "GPU:1 between GPUs"),
        ("s/a", "GPU:1 between GPUs", "GPU:1 compute"),
        ("s/b", "GPU:1 compute", "GPU:1 to host"),
        ("s/b", "GPU:1 to host", "host thread 0"),
    ]
    links = [(r.name, r.series, r.time, r.value) for r in records if isinstance(r, Count) and r.process == "Links"]
    shared = ns(A + KERNEL), ns(A + KERNEL + BOTH_WAYS)
    spans = {
        "GPU:0 PCIe in": (ns(2 * DISPATCH), ns(launched[0])),
        "GPU:0 PCIe out": shared,
        "GPU:1 PCIe in": shared,
        "GPU:1 PCIe out": (ns(B + KERNEL), ns(M)),
    }
    assert links == [
        (name, "transfers in flight", time, value)
        for name, span in spans.items()
        for time, value in zip(span, (1, 0), strict=True)
    ]


def test_between_the_gpus_of_two_tasks_a_tensor_is_copied_sent_received_and_copied() -> None:
    graph = {
        "devices": [{"job": "w", "tasks": 2, "cpu": 1, "gpu": {"count": 1, "model": "Tesla K80"}}],
        "nodes": [
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64], "device": "/task:0/gpu:0"},
            {"op": "Neg", "name": "a", "inputs": ["x"], "device": "/job:w/task:0/gpu:0"},
            {"op": "Exp", "name": "b", "inputs": ["a"], "device": "/job:w/task:0/gpu:0"},
            {"op": "AddN", "name": "c", "inputs": ["a", "b"], "device": "/job:w/task:1/gpu:0"},
        ],
        "fetch": ["c"],
    }
    study, _ = drawn(graph)
    assert study.trace is not None
    records = list(study.trace.records())
    sent = [(r.args["name"], r.name, r.track.thread) for r in records if isinstance(r, TraceSlice) and "from" in r.args]
    across = [row for row in sent if row[0] in ("a", "b")]
    assert across == [
        row
        for name in ("a", "b")
        for row in (
            (name, "MEMCPYDtoH", "w:0/GPU:0 to host"), (name, "RecvTensor", "out 0"),
            (name, "RecvTensor", "in 0"), (name, "MEMCPYHtoD", "w:1/GPU:0 from host"),
        )
    ]  # fmt: skip
    arrows = [(r.source.thread, r.target.thread) for r in records if isinstance(r, Arrow) and r.name == "b"]
    assert arrows == [
        ("w:0/GPU:0 compute", "w:0/GPU:0 to host"), ("w:0/GPU:0 to host", "out 0"), ("out 0", "in 0"),
        ("in 0", "w:1/GPU:0 from host"), ("w:1/GPU:0 from host", "w:1/GPU:0 compute"),
    ]  # fmt: skip
    networks = [
        r.track.process for r in records if isinstance(r, TraceSlice) and r.args.get("name") == "b" and r.name == "RecvTensor"
    ]
    assert networks == [f"/job:w/replica:0/task:{task}/device:GPU:0/network Compute" for task in (0, 1)]


# --- what its nodes would take elsewhere


def test_a_node_costs_its_kernel_and_what_it_reads_from_elsewhere() -> None:
    options = make_options(ONE_THREAD)
    costs = find_costs(load(GRAPH, None, options), options)
    k80 = gpu_processor(GPU_MODELS["Tesla K80"])
    work = StreamedBytes("elementwise", 3.0 * BYTES)
    kernel, cpu = predict(work, k80), predict(work, Host(HostModel(flops=1e11, bandwidth=1e10, cores=1)).processor(1))
    found = costs.of("m", ("CPU", "GPU"))
    assert found is not None
    assert (found.node, found.step, found.runs, found.operations, found.bytes) == ("m", 0, 1, BYTES // 4, 3 * BYTES)
    assert (found.unknown, found.calls) == ((), False)
    here = found.here
    assert here is not None
    assert (here.device, here.processor, here.family, here.bound) == (CPU, "host", "elementwise", "memory")
    assert (here.seconds, here.low, here.high) == pytest.approx(tuple(DISPATCH + seconds for seconds in cpu))
    assert (here.compute, here.memory, here.launch) == pytest.approx((BYTES / 4 / 1e11, 3 * BYTES / 8e9, DISPATCH))
    assert (here.launch_on_host, here.is_uncertain) == (0.0, False)
    assert [tuple(transfer) for transfer in here.transfers] == [("s/b", GPU1, BYTES, pytest.approx(ONE_WAY))]
    assert here.transfer_seconds == pytest.approx(ONE_WAY)
    assert [cost.device for cost in found.elsewhere] == [CPU1, GPU0, GPU1]
    _, other, there = found.elsewhere
    machine = machine_of(work, k80)
    assert (other.processor, other.launch_on_host) == ("Tesla K80", LAUNCHING)
    assert other.seconds == pytest.approx(kernel.seconds)
    assert (other.compute, other.memory) == pytest.approx((BYTES / 4 / machine.rate, 3 * BYTES / machine.bandwidth))
    assert other.launch == pytest.approx(start_seconds(work, k80))
    assert other.launch < other.seconds
    assert [tuple(transfer) for transfer in other.transfers] == [
        ("f", CPU, BYTES, pytest.approx(ONE_WAY)), ("s/b", GPU1, BYTES, pytest.approx(BOTH_WAYS))
    ]  # fmt: skip
    assert other.transfer_seconds == pytest.approx(ONE_WAY + BOTH_WAYS)
    assert [transfer.tensor for transfer in there.transfers] == ["f"]


def test_what_is_fed_read_twice_or_in_the_hosts_memory_is_known_by_its_place() -> None:
    options = make_options(ONE_THREAD)
    costs = find_costs(load(GRAPH, None, options), options)
    first, shape, fill = (costs.of(name, ("GPU",)) for name in ("s/a", "n", "f"))
    assert first is not None
    assert first.here is not None
    assert [transfer.tensor for transfer in first.here.transfers] == ["x"]
    assert [cost.device for cost in first.elsewhere] == [GPU1]
    assert shape is not None
    assert shape.here is not None
    assert (shape.here.family, shape.here.compute, shape.here.memory) == ("", 0.0, 0.0)
    assert (shape.here.seconds, shape.here.launch, shape.here.launch_on_host) == (0.0, 0.0, DISPATCH)
    assert (shape.here.bound, shape.here.transfers) == ("launch", ())
    assert fill is not None
    # the shape is in the host's memory on either, and the value goes to a GPU
    assert fill.here is not None
    assert fill.here.transfers == ()
    assert [(transfer.tensor, transfer.bytes) for transfer in fill.elsewhere[0].transfers] == [("f/value", 4)]
    assert costs.of("no such node", ("GPU",)) is None


def test_a_device_on_which_nothing_is_known_of_a_node_is_told_with_the_reason() -> None:
    gpu = {"name": "Acme", "memory": "8GiB", "flops": 1e12, "bandwidth": 1e11}
    graph = {
        "devices": {"cpu": 2, "gpu": {"count": 1, "model": gpu}},
        "nodes": [
            {"op": "Placeholder", "name": "x", "dtype": "float64", "shape": [64, 64]},
            {"op": "MatMul", "name": "y", "inputs": ["x", "x"], "device": "/cpu:0"},
            {"op": "MatMul", "name": "z", "inputs": ["x", "x"], "device": "/gpu:0"},
        ],
        "fetch": ["y", "z"],
    }
    options = make_options({})
    costs = find_costs(load(graph, None, options), options)
    found, other = (costs.of(name, ("GPU", "CPU")) for name in "yz")
    assert found is not None
    assert other is not None
    assert found.here is not None
    assert found.here.device == CPU
    assert other.here is None
    ((device, reason),) = found.unknown
    assert device == GPU0
    assert reason.startswith("no time for y: Acme has no rate for float64: got rates for float32")
    assert [[cost.device for cost in node.elsewhere] for node in (found, other)] == [[CPU1], [CPU, CPU1]]


def test_texts_are_said_to_count_for_nothing() -> None:
    nodes = [{"op": "Const", "name": "x", "value": 1.0}, {"op": "AsString", "name": "t", "inputs": ["x"]}]
    assert study({"nodes": nodes}).assumptions[-1] == "strings count as 0 bytes"
    assert "strings count as 0 bytes" not in study({"nodes": nodes[:1]}).assumptions
