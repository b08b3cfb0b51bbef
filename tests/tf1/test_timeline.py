"""RunMetadata's shapes and memory, and the trace that `timeline.Timeline` makes of step statistics."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.formats.tensorflow.messages import parse
from placesim.tf1.session import sessions
from placesim.tf1.session.timeline import Timeline

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def _traced() -> Any:
    tf.reset_default_graph()
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    w = tf.Variable(tf.ones([3, 5]), name="w", use_resource=False)
    y = tf.reduce_sum(tf.matmul(x, w, name="y"), name="z")
    metadata = tf.RunMetadata()
    with sessions.Session() as session:
        session.run(w.initializer)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(y, {x: np.ones((4, 3))}, options=options, run_metadata=metadata)
    return metadata.step_stats


def test_step_stats_tell_shapes_and_memory() -> None:
    """Figures of the nodes from TensorFlow 2.21's own step statistics of this graph."""
    nodes = {node.node_name: node for device in _traced().dev_stats for node in device.node_stats}
    (output,) = nodes["y"].output
    described = output.tensor_description
    assert ([dim.size for dim in described.shape.dim], described.dtype) == ([4, 5], 1)
    assert described.allocation_description.requested_bytes == 80
    (memory,) = nodes["y"].memory
    assert (memory.allocator_name, memory.total_bytes, memory.peak_bytes) == ("cpu", 80, 80)
    assert [record.alloc_bytes for record in memory.allocation_records] == [80, -80]
    assert not nodes["w/read"].memory
    assert nodes["w"].memory_stats.persistent_memory_size == 60
    assert nodes["w/read"].output[0].tensor_description.allocation_description.requested_bytes == 60


def test_a_trace_without_memory_has_no_tensors() -> None:
    events = json.loads(Timeline(_traced()).generate_chrome_trace_format())["traceEvents"]
    assert {event["ph"] for event in events} <= {"M", "X", "s", "t"}
    shown = json.loads(Timeline(_traced()).generate_chrome_trace_format(show_memory=True))["traceEvents"]
    assert {event["ph"] for event in shown} >= {"N", "O", "D", "C"}


def _made_up() -> Any:
    stats = parse("StepStats", b"")
    kernels: tuple[list[tuple[str, str, int, int, tuple[int, ...]]], ...] = (
        [("a", "", 100, 10, (8, 12)), ("b", "a, a:1, ^c", 105, 10, (8,)), ("n", "^b", 130, 0, ()), ("s", "b", 160, 3, ())],
        [("g", "b", 120, 10, (8,)), ("h", "g", 90, 10, (8,))],
    )
    for number, rows in enumerate(kernels):
        device = stats.dev_stats.add(device=CPU.replace("CPU:0", f"CPU:{number}"))
        for name, inputs, start, took, sizes in rows:
            label = f"{name} = Op({inputs})"
            node = device.node_stats.add(node_name=name, timeline_label=label, all_start_micros=start, all_end_rel_micros=took)
            for slot, size in enumerate(sizes):
                described = node.output.add(slot=slot).tensor_description.allocation_description
                described.requested_bytes, described.allocator_name = size, "cpu"
    return stats


def test_lanes_arrows_and_counters_are_tensorflows() -> None:
    """What TensorFlow 2.21's Timeline writes for these statistics."""
    analysis = Timeline(_made_up()).analyze_step_stats()
    events = json.loads(analysis.chrome_trace.format_to_string())["traceEvents"]
    processes = [event["args"]["name"].replace(CPU[:-1], "") for event in events if event["ph"] == "M"]
    assert processes == ["Allocators", "0 Compute", "0 Tensors", "1 Compute", "1 Tensors"]
    lanes = {event["args"]["name"]: (event["pid"], event["tid"]) for event in events if event["ph"] == "X"}
    assert lanes == {"a": (1, 0), "b": (1, 1), "n": (1, 0), "s": (1, 0), "g": (3, 0), "h": (3, 1)}
    arrows = [(event["ph"], event["name"], event["pid"], event["tid"], event["ts"]) for event in events if event["ph"] in "st"]
    assert arrows == [
        ("s", "a", 1, 0, 110),
        ("t", "a", 1, 1, 105),
        ("s", "a:1", 1, 0, 110),
        ("t", "a:1", 1, 1, 105),
        ("s", "b", 1, 1, 115),
        ("t", "b", 1, 0, 160),
        ("s", "b", 1, 1, 115),
        ("t", "b", 3, 0, 120),
        ("s", "g", 3, 0, 130),
        ("t", "g", 3, 1, 90),
    ]
    assert [(event["name"], event["ts"]) for event in events if event["ph"] == "D"] == [
        ("a", 114),
        ("a:1", 114),
        ("b", 162),
        ("g", 130),
        ("h", 100),
    ]
    held = [(event["ts"], event["args"]["cpu"]) for event in events if event["ph"] == "C"]
    assert held[:4] == [(90, 8), (100, 0), (100, 8), (100, 20)]
    assert (analysis.allocator_maximums["cpu"].timestamp, analysis.allocator_maximums["cpu"].num_bytes) == (105, 28)
