"""The tables of public names: each name stands in one of them, and what it names is there."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pkgutil import iter_modules

import pytest

from placesim.ops.registry import load_registry
from placesim.tf1 import exports

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
