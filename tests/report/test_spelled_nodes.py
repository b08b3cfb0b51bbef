"""Messages as TensorFlow 1.15's Python shows them (0.4, 13.14)."""

from __future__ import annotations

import io

import pytest

import placesim
from placesim.core.errors import OpError
from placesim.report.report import Report

GRAPH = """tensorflow: 1.15
devices: {cpu: 3}
nodes:
  - device: /cpu:1
    nodes:
      - {op: Const, name: a, value: 1.0}
  - {op: Const, name: b, value: 1.0}
  - {op: Neg, name: c, inputs: [b]}
  - {op: Neg, name: d, inputs: [c], device: "/gpu:7"}
"""
AVAILABLE = ", ".join(f"/job:localhost/replica:0/task:0/device:{kind}" for kind in ("CPU:0", "CPU:1", "CPU:2", "XLA_CPU:0"))


def _complaint(text: str) -> list[str]:
    with pytest.raises(OpError) as raised:
        placesim.place(io.StringIO(text))
    report = raised.value.report
    assert isinstance(report, Report)
    return report.error_text().splitlines()


def test_a_node_with_what_it_reads() -> None:
    lines = _complaint(GRAPH)
    assert lines[:5] == [
        "InvalidArgumentError: Cannot assign a device for operation d: node d (defined at <stream>:9)  was explicitly assigned "
        f"to /device:GPU:7 but available devices are [ {AVAILABLE} ]. "
        "Make sure the device specification refers to a valid device.",
        "  [[d]]",
        "  Errors may have originated from an input operation.",
        "  Input Source operations connected to node d:",
        "  c (defined at <stream>:8)",
    ]


def test_a_node_that_is_at_odds_with_another() -> None:
    raw = """tensorflow: 1.15
raw: true
devices: {cpu: 3}
nodes:
  - {op: Const, name: a, value: 1.0, device: "/cpu:1", attrs: {_class: ["loc:@x"]}}
  - {op: Const, name: b, value: 1.0, device: "/cpu:2", attrs: {_class: ["loc:@x"]}}
"""
    assert _complaint(raw)[:4] == [
        "InvalidArgumentError: Cannot colocate nodes node b (defined at <stream>:6) placed on device Device assignments active "
        "during op 'b' creation:",
        "  with tf.device(/cpu:2): <<stream>:6>  and node a (defined at <stream>:5) placed on device Device assignments active "
        "during op 'a' creation:",
        "  with tf.device(/cpu:1): <<stream>:5> : Cannot merge devices with incompatible ids: '/device:CPU:2' and "
        "'/device:CPU:1'",
        "  [[node b (defined at <stream>:6) ]]",
    ]


def test_the_current_release_says_it_in_a_line() -> None:
    text = GRAPH.replace("1.15", "2.21")
    assert "node d (defined at <stream>:9) was explicitly assigned" in _complaint(text)[0]
