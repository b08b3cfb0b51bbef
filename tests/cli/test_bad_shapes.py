"""A graph that TensorFlow's Python could not have built: every command says so, at the lines of the nodes."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell

BAD = """\
nodes:
  - {op: Const, name: a, value: [1.0, 2.0, 3.0], shape: [1, 3]}
  - {op: Const, name: b, value: [1.0, 2.0, 3.0, 4.0], shape: [2, 2]}
  - scope: s
    nodes:
      - {op: MatMul, name: c, inputs: [a, b], control_inputs: [a], device: /cpu:0, colocate_with: [a]}
  - {op: Neg, name: d, inputs: [s/c]}
  - {op: AddV2, name: e, inputs: [b, a]}
"""
MATMUL = (
    "Dimensions must be equal, but are 3 and 2 for '{{node s/c}} = MatMul[T=DT_FLOAT, grad_a=false, grad_b=false, "
    "transpose_a=false, transpose_b=false](a, b, ^a)' with input shapes: [1,3], [2,2]."
)
ADD = "Dimensions must be equal, but are 2 and 3 for '{{node e}} = AddV2[T=DT_FLOAT](b, a)' with input shapes: [2,2], [1,3]."


@pytest.mark.parametrize(
    "command", [("run",), ("place",), ("explain", "a"), ("check", "--rule", "no-soft-fallback"), ("show",)], ids=lambda c: c[0]
)
def test_every_command_names_all_refused_entries(shell: Shell, command: tuple[str, ...]) -> None:
    ended = shell(command[0], shell.write("g.yaml", BAD), *command[1:])
    assert ended == (2, "", f"ValueError: g.yaml:6:9: {MATMUL}\n  g.yaml:8:5: {ADD}\n")
