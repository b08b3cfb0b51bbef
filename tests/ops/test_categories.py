"""The sets of op names: whether TensorFlow has such ops, and how many other modules name ops."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from placesim.core.releases import RELEASES
from placesim.ops import categories
from placesim.ops.registry import load_registry

PACKAGE = Path(categories.__file__).parents[1]
NAMING_ROOMS = ("ops/", "tf1/", "formats/onnx/")
"""The rooms of the tables that are keyed by op; elsewhere, only a rule about one op names it."""

SETS = {name: value for name, value in vars(categories).items() if name.isupper()}


@pytest.mark.parametrize("name", SETS)
def test_every_name_is_an_op_of_tensorflow(name: str) -> None:
    ops = list(SETS[name])
    assert ops
    assert len(set(ops)) == len(ops)
    assert [op for op in ops if load_registry().op(op) is None] == []


def test_few_modules_name_ops() -> None:
    ops = {op for release in RELEASES for op in load_registry(release).op_names}
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    named = {name: ops & texts(path) for name, path in paths.items() if not name.startswith(NAMING_ROOMS)}
    assert sum(map(len, named.values())) < 250
    assert sum(map(bool, named.values())) < 60


def texts(path: Path) -> set[str]:
    """The words in quotation marks in a module: the texts among its constants, and some of comments."""
    return set(re.findall(r"[\"'](\w+)[\"']", path.read_text("utf-8")))
