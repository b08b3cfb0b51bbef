"""How a file of kernels is written: ops spelled out in its table, shape functions by their names, errors in docstrings."""

from __future__ import annotations

import ast
import inspect
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from placesim.ops.kernels import FAMILIES, shapes
from placesim.ops.kernels.kernel import Table

OTHERS = ("string.tensor_serialization",)
"""Families that are not yet written so."""

WRITTEN = [family for family in FAMILIES if family not in OTHERS]


def _module(family: str) -> ModuleType:
    return import_module(f"placesim.ops.kernels.{family}")


@cache
def _tree(family: str) -> ast.Module:
    return ast.parse(Path(inspect.getfile(_module(family))).read_text())


def _name(infer: Any) -> str:
    name: str = infer.func.__qualname__ if isinstance(infer, partial) else infer.__qualname__
    return name


@pytest.mark.slow
def test_each_op_is_spelled_out_in_the_table_that_ends_its_file(subtests: pytest.Subtests) -> None:
    for family in WRITTEN:
        with subtests.test(family):
            last = _tree(family).body[-1]
            assert isinstance(last, ast.AnnAssign)
            assert ast.unparse(last.target) == "TABLE"
            spelled = {node.value for node in ast.walk(last) if isinstance(node, ast.Constant)}
            assert set(_module(family).TABLE) <= spelled


def test_each_shape_function_is_of_the_vocabulary_or_infers(subtests: pytest.Subtests) -> None:
    known = list(vars(shapes).values())
    for family in WRITTEN:
        with subtests.test(family):
            table: Table = _module(family).TABLE
            names = {op: _name(row.shape) for op, row in table.items() if row.shape not in known}
            assert not {op: name for op, name in names.items() if not name.lstrip("_").startswith(("infer_", "build_infer_"))}


@pytest.mark.slow
def test_each_public_function_that_raises_says_what(subtests: pytest.Subtests) -> None:
    for family in WRITTEN:
        with subtests.test(family):
            functions = [
                node for node in _tree(family).body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
            ]
            raising = [node for node in functions if any(isinstance(part, ast.Raise) for part in ast.walk(node))]
            assert not [node.name for node in raising if "Error" not in (ast.get_docstring(node) or "")]


@pytest.mark.parametrize("family", [family for family in FAMILIES if family.startswith("resources.")])
def test_a_kernel_that_waits_says_so_in_its_row(family: str) -> None:
    """An op that waits and whose row does not say so would end in a defect where nothing else makes its step a dataflow."""
    table: Table = _module(family).TABLE
    for op, kernel in table.items():
        told = inspect.getdoc(kernel.compute.func if isinstance(kernel.compute, partial) else kernel.compute) or ""
        assert kernel.may_wait or ("KernelWait" not in told and "waits until" not in told), op
