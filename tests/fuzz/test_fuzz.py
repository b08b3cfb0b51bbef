"""The fuzzers themselves: every surface makes inputs that run, and what is planted is found, once, and made small."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from placesim.formats.sources.loading import load
from placesim.ops.registry import load_registry
from tests.fuzz.campaign import SURFACES, Campaign
from tests.fuzz.corpus import tensorflow_files
from tests.fuzz.findings import judge
from tests.fuzz.inputs import Input
from tests.fuzz.mutation import dump, mutate_message, parse
from tests.fuzz.runner import Limits, Outcome, Runner
from tests.fuzz.shrinking import shrink
from tests.fuzz.surfaces import graphs

INPUTS = 4
PLANTED = "tests.fuzz.planted:main"


@pytest.fixture(scope="module")
def placesim() -> Iterator[Runner]:
    """The command line; what an input may take is not what is tested here."""
    with Runner(Limits(seconds=120)) as runner:
        yield runner


@pytest.fixture(scope="module")
def planted() -> Iterator[Runner]:
    with Runner(Limits(seconds=120), PLANTED) as runner:
        yield runner


@pytest.mark.slow
@pytest.mark.parametrize("name", SURFACES)
def test_a_surface_makes_inputs_that_follow_from_the_seed_and_run(name: str, placesim: Runner) -> None:
    first, again = (list(islice(SURFACES[name](Random("seed")), INPUTS)) for _ in range(2))
    assert first == again
    for given in first:
        judge(given, placesim.run(given), placesim)


@pytest.mark.slow
@pytest.mark.parametrize("name", SURFACES)
def test_a_surface_goes_on(name: str) -> None:
    made = list(islice(SURFACES[name](Random("more")), 300))
    assert len({(given.argv, *given.files.values()) for given in made}) > 150


def test_the_ops_of_the_grammar_are_ops() -> None:
    assert [op for op in graphs.COMMON if load_registry().op(op) is None] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kind", "error", "function"),
    [
        (("crash",), "signal", "SIGSEGV", "_crash"),
        (("hang",), "hang", "hang", "_hang"),
        (("grow",), "defect", "MemoryError", "_grow"),
        (("raise",), "defect", "KeyError", "_raise"),
        (("defect",), "defect", "", ""),
        (("warn",), "warning", "RuntimeWarning", ""),
        (("code",), "exit code", "70", ""),
        (("json", "--format", "json"), "not JSON", "", ""),
        (("nan", "--format", "json"), "not JSON", "", ""),
        (("control",), "control character", "stdout", ""),
        (("outside",), "change outside", "open", ""),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_is_planted_is_found(words: tuple[str, ...], kind: str, error: str, function: str, planted: Runner) -> None:
    given = Input(words, {})
    (finding,) = judge(given, planted.run(given, 0.2 if kind == "hang" else None), planted)
    assert (finding.kind, finding.error) == (kind, error)
    if function:
        assert finding.frame.startswith("tests/fuzz/planted.py:")
        assert finding.frame.endswith(f"in {function}")


def test_what_is_well_is_no_finding(planted: Runner) -> None:
    given = Input(("well", "--format", "text"), {})
    assert judge(given, planted.run(given), planted) == []


@pytest.mark.parametrize("printed", [b"1\n2\n", b'{"a": [1, null]}\n'])
def test_json_is_one_value_or_one_a_line(printed: bytes, planted: Runner) -> None:
    assert judge(Input(("place", "--format", "json"), {}), Outcome(0, printed, b""), planted) == []


def test_a_finding_is_kept_once_with_its_smallest_input(planted: Runner, tmp_path: Path) -> None:
    tree = {"nodes": [{"op": "Const", "value": [1, 2, "planted", 3]}, {"op": "NoOp"}], "run": [{"fetch": []}]}
    given = Input(("word", "--an", "option"), {"g.yaml": dump(tree), "other.yaml": b"1"})
    campaign = Campaign(planted, tmp_path, lambda text: None)
    campaign.run_surface("word", iter((given, given)), float("inf"))
    ((key, found),) = campaign.found.items()
    assert campaign.hits[key] == 2
    assert found.smallest == Input(("word",), {"g.yaml": b'{"nodes": [{"value": ["planted"]}]}'})
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "finding.json").read_text())["command"] == "placesim word"
    assert b"planted" in (folder / "g.yaml").read_bytes()
    assert "placesim word" in campaign.summary()


def test_a_text_that_is_no_tree_is_made_small() -> None:
    smallest = shrink(Input(("run",), {"f": bytes(range(256))}), lambda given: b"\x80" in given.files.get("f", b""), 60)
    assert len(smallest.files["f"]) < 16


def test_odd_numbers_are_written_as_yaml_reads_them() -> None:
    assert (
        dump({"a": [float("nan"), -float("inf"), "NaN"], "b": 10**5000})
        == b'{"a": [.nan, -.inf, "NaN"], "b": 1' + b"0" * 5000 + b"}"
    )
    assert parse(dump({"a": [10**5000, "\ud800"]})) == {"a": [10**5000, "\ud800"]}


def test_a_changed_message_is_still_one(tmp_path: Path) -> None:
    rng, model, path = Random("message"), tensorflow_files()["frozen.pb"], tmp_path / "changed.pb"
    errors = []
    for _ in range(20):
        path.write_bytes(mutate_message(rng, model))
        errors.append(load(path).error)
    assert None in errors
    assert not any("truncated" in str(error) for error in errors)
