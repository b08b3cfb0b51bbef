"""The tables of public names: each name stands in one of them, and what it names is there."""

from __future__ import annotations

import sys
from collections import Counter
from importlib import import_module
from pkgutil import iter_modules

import pytest

from placesim.ops.registry import load_registry
from placesim.tf1 import exports
from tests.processes import run_process

TABLES = [module.name for module in iter_modules(exports.__path__)]


def test_no_name_is_in_two_tables() -> None:
    names: Counter[str] = Counter()
    for topic in TABLES:
        rows = import_module(f"{exports.__name__}.{topic}")
        names.update(name for name, _ in exports._pairs(getattr(rows, "OPS", "")))
        names.update(name for text in getattr(rows, "ROWS", {}).values() for name, _ in exports._pairs(text))
    assert not [name for name, count in names.items() if count > 1]


@pytest.mark.parametrize("topic", TABLES)
def test_what_a_table_names_is_there(topic: str) -> None:
    rows = import_module(f"{exports.__name__}.{topic}")
    for module, text in getattr(rows, "ROWS", {}).items():
        found = import_module(f"placesim.tf1.{module}")
        assert not [name for _, name in exports._pairs(text) if not hasattr(found, name)], module
    known = set(load_registry().op_names)
    assert not [op for _, op in exports._pairs(getattr(rows, "OPS", "")) if op not in known]


_ASKED_IN_TURN = """
import sys
from importlib import import_module
from pkgutil import iter_modules
import placesim.tf1 as tf
from placesim.tf1.importing.missing_names import known_names
from placesim.tf1.importing.namespaces import find

def check():
    for name in sorted(known_names()):
        here = tf
        for part in name.split('.'):
            here = getattr(here, part)
        if here is not find(name):
            print(name)

if sys.argv[1] == 'before':
    check()
submodules = [module.name for module in iter_modules(tf.__path__) if module.name != 'script_process']
for name in submodules if sys.argv[2] == 'forwards' else reversed(submodules):
    import_module('placesim.tf1.' + name)
    exec('import placesim.tf1.' + name)
check()
"""


@pytest.mark.slow(2)
@pytest.mark.parametrize("order", ["forwards", "backwards"])
@pytest.mark.parametrize("first", ["before", "after"])
def test_a_public_name_is_itself_whatever_submodule_is_imported(first: str, order: str) -> None:
    """`gradients` is a function and `nn` the API's module, though submodules of these names are imported."""
    assert run_process((sys.executable, "-c", _ASKED_IN_TURN, first, order)) == (0, "", "")


def test_a_users_own_imports() -> None:
    program = """
import placesim.tf1 as tf
import placesim.tf1.math.elementwise
import placesim.tf1.nn as nn
from placesim.tf1 import math, train
from placesim.tf1.layers import core
x = tf.placeholder(tf.float32, [2, 3])
print(tf.gradients(nn.relu(tf.math.add(x, math.exp(x))), x)[0].shape, tf.dtypes.cast(x, tf.int32).dtype.name, core.__name__)
print(hasattr(tf.math, 'no_such'), tf.linalg.transpose is tf.linalg.matrix_transpose, train.GradientDescentOptimizer.__name__)
"""
    found = run_process((sys.executable, "-c", program))
    assert found.complaint == ""
    assert found.output == "(2, 3) int32 placesim.tf1.layers.core\nFalse True GradientDescentOptimizer\n"
