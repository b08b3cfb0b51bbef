"""Links of the inventory and of the command line: what `placesim simulate` makes of them, and how it ends."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell, rows


def test_a_problem_has_its_place_in_the_file(shell: Shell) -> None:
    name = shell.write("i.yaml", "devices: {gpu: 2}\nlinks:\n  - between: [GPU:0, GPU:1]\n    bandwidth: -1\n")
    graph = shell.write("g.yaml", "nodes: [{op: Const, name: a, value: 1.0}]\n")
    ended = shell("simulate", graph, "--inventory", name)
    assert ended.code == 2
    assert ended.complaint.startswith(f"GraphFileError: {name}:4:16: bandwidth out of range")


CHAIN = """
devices: {cpu: 1, gpu: {count: 2, model: Tesla K80}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [1024, 1024]}
  - {op: Relu, name: a, inputs: [x], device: /gpu:0}
  - {op: Relu, name: b, inputs: [a], device: /gpu:1}
fetch: [b]
"""


def test_no_route_is_an_error_that_names_both(shell: Shell) -> None:
    graph = shell.write("g.yaml", f"{CHAIN}links:\n  - {{between: [GPU:1, host], bandwidth: none}}\n")
    ended = shell("simulate", graph)
    assert ended.code == 2
    expected = (
        "no route from GPU:0 (/job:localhost/replica:0/task:0/device:GPU:0) to GPU:1 "
        "(/job:localhost/replica:0/task:0/device:GPU:1)"
    )
    assert expected in ended.complaint
    assert f"{graph}:9:" in ended.complaint
    assert "no route" in shell("simulate", shell.write("h.yaml", CHAIN), "--link", "GPU:1-host=none").complaint
    assert shell("place", graph).code == 0


def test_a_wider_link_takes_its_share_of_the_time(shell: Shell) -> None:
    graph = shell.write("g.yaml", CHAIN)

    def seconds(*links: str) -> float:
        found = rows(shell("simulate", graph, *(part for link in links for part in ("--link", link))).output, "transfer")
        return next(float(row[5]) for row in found if row[0] == "a")

    size = 4 * 1024 * 1024
    assert seconds("GPU:0-GPU:1=1GB/s@1us") == pytest.approx(size / 1e9 + 1e-6)
    assert seconds("GPU:0>GPU:1=2GB/s@none") == pytest.approx(size / 2e9)
    assert seconds("GPU:0-GPU:1=free") == 0
    document = shell("simulate", graph, "--format", "json", "--link", "GPU:0-GPU:1=free").output
    assert '"name":"GPU:0 to GPU:1","bandwidth":null' in document
