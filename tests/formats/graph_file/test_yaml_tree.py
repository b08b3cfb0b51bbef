"""The tree of a YAML text: scalars as PyYAML's SafeLoader reads them, places, aliases."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from placesim.formats.graph_file.parsing.yaml_tree import PLAIN_FLOAT, key_position, read_tree, resolve_plain, value_position
from placesim.graph.graph import COLUMNS

SCALARS = [
    *("a", "1", "-1", "+1", "0", "007", "0x1F", "0b101", "1_000", "08", "0o7", "1:30", "a:1", "^a", "1-2", "1.2.3", "n", "y"),
    *("1.5", "-1.5", "1.", ".5", "1.0e+5", ".inf", "-.inf", ".nan", "nan", "inf", "1:30.5"),
    *("yes", "No", "on", "OFF", "true", "~", "null", "Null"),
]


@pytest.mark.parametrize("text", SCALARS)
def test_scalars_are_those_of_the_safe_loader(text: str) -> None:
    expected, found = yaml.safe_load(f"- {text}")[0], read_tree(f"- {text}", "f")[0]
    assert type(found) is type(expected)
    assert found == expected or (math.isnan(found) and math.isnan(expected))


def test_dates_stay_texts() -> None:
    assert read_tree("a: 2020-01-02", "f") == {"a": "2020-01-02"}


def test_numbers_of_a_json_document() -> None:
    assert read_tree('{"a": 1e-07, "b": -2E5}', "f") == {"a": 1e-07, "b": -2e5}


# PyYAML reads a text such as 1e5 as a text
TEXTS = st.text().filter(lambda text: not PLAIN_FLOAT.fullmatch(text))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(VALUES)
def test_reads_what_pyyaml_writes(value: object) -> None:
    assert read_tree(yaml.safe_dump({"root": value}), "f") == {"root": value}


def test_places() -> None:
    tree = read_tree("a: 1\nb:\n  - x\n  - {c: y}\n", "f")
    assert divmod(key_position(tree, "b"), COLUMNS) == (2, 1)
    assert divmod(value_position(tree["b"], 1), COLUMNS) == (4, 5)
    assert divmod(value_position(tree["b"][1], "c"), COLUMNS) == (4, 9)


def test_merge_keys() -> None:
    tree = read_tree("- &a {x: 1, y: 2}\n- &b {y: 3, z: 4}\n- {<<: [*a, *b], z: 5}\n", "f")
    assert tree[2] == {"x": 1, "y": 2, "z": 5}


@pytest.mark.parametrize("tag", ["!!str 5", "!!int '5'", "!!float 5"])
def test_yaml_s_own_tags(tag: str) -> None:
    assert read_tree(f"[{tag}]", "f") == yaml.safe_load(f"[{tag}]")


@given(st.text(alphabet="-+.:_0123456789eExXabinfy", max_size=12))
def test_any_plain_text_resolves(text: str) -> None:
    resolve_plain(text)
