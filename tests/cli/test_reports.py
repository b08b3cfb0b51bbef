"""Results as they come: printed and forgotten step by step, large ones piece by piece, the same bytes as all at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.cli import output, report_output
from placesim.core.dtypes import parse_dtype
from placesim.core.files.writer import PIECE_LETTERS
from placesim.report import document
from placesim.report.document import json_line, json_text, result_document, result_pieces
from placesim.runtime.sessions.results import Result
from tests.cli.shell import Shell, start
from tests.cli.warm import start_warm
from tests.processes import interrupt

COUNTED = {
    "nodes": [
        {"variable": "v", "kind": "ref", "shape": [], "dtype": "int32", "initializer": "zeros"},
        {"initializer": "init"},
        {"op": "AssignAdd", "name": "o", "inputs": ["v", 2]},
    ],
    "run": [{"fetch": ["init"]}, {"fetch": ["o:0"], "repeat": 40}],
}
ENDLESS = json.dumps({**COUNTED, "run": [{"fetch": ["init"]}, {"fetch": ["o:0"], "repeat": 1_000_000_000}]})
CALLED: dict[str, Any] = {
    "nodes": [
        {"op": "Const", "name": "a", "value": 1.0},
        {
            "op": "PartitionedCall",
            "name": "c",
            "inputs": ["a"],
            "attrs": {"f": {"func": "F"}, "Tin": ["float"], "Tout": ["float"]},
        },
    ],
    "functions": [
        {
            "name": "F",
            "inputs": [{"name": "a", "type": "float"}],
            "outputs": [{"name": "o", "type": "float", "value": "y:y:0"}],
            "nodes": [{"op": "Neg", "name": "y", "inputs": ["a"], "attrs": {"T": "float"}}],
        }
    ],
    "run": [{"fetch": ["c:0"], "repeat": 30}],
}
STRINGS = np.array([[b"a", b"\xff\x01" * 9], ["é\N{GRINNING FACE}\u2028\x7f".encode() * 5, b'"\\']], object)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.arange(24).reshape(2, 3, 4), "int64"),
        (np.arange(24.0).reshape(24) / 7, "float"),
        (np.array([np.nan, np.inf, -np.inf, 1]), "double"),
        (np.array([[1 + 2j, 3], [4, 5j]]), "complex64"),
        (np.zeros((3, 0, 2)), "float"),
        (np.zeros((0, 5)), "float"),
        (np.float32(3), "float"),
        (np.arange(9) % 2, "bool"),
        (STRINGS, "string"),
        (STRINGS.reshape(-1), "string"),
        (STRINGS[1, 0], "string"),
        (np.arange(30).reshape(5, 6), "bfloat16"),
        (np.arange(30).reshape(5, 6) % 7, "int4"),
    ],
)
@pytest.mark.parametrize("few", [1, 2, 5, 1 << 14])
def test_pieces_are_the_whole(value: Any, dtype: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "ELEMENTS_AT_A_TIME", few)
    monkeypatch.setattr(document, "LETTERS_AT_A_TIME", few)
    result = Result(3, "x:0", parse_dtype(dtype), value)
    pieces = list(result_pieces(result))
    assert "".join(pieces) + "\n" == json_line(result_document(result))
    if few == 1 and np.size(value) > 1:
        assert max(map(len, pieces)) < 80


@pytest.mark.slow
@pytest.mark.parametrize("graph", [COUNTED, CALLED], ids=["counted", "called"])
@pytest.mark.parametrize("waiting", [0, 1 << 20])
@pytest.mark.parametrize("options", [(), ("--log-placement",), ("--format", "json"), ("--format", "json", "--summary")])
def test_what_is_streamed_is_what_a_whole_report_says(
    shell: Shell, graph: Any, waiting: int, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_output, "PIECE_LETTERS", 7)
    monkeypatch.setattr(report_output, "MAX_WAITING", waiting)
    name = shell.write("graph.json", json.dumps(graph))
    printed = shell("run", name, *options)
    whole = placesim.run(graph, log_placement=options != ())
    assert (printed.code, printed.complaint) == (0, "")
    if "json" in options:
        document = json.loads(printed.output)
        assert "summary" not in document or document.pop("summary")
        assert document == whole.document()
    elif graph is COUNTED or waiting or not options:
        assert printed.output == whole.text()
    else:  # the function's nodes are placed while the steps run, whose results are too many to wait
        assert sorted(printed.output.splitlines()) == sorted(whole.text().splitlines())


def test_an_error_comes_behind_what_was_printed(shell: Shell) -> None:
    graph = {
        "nodes": [{"op": "Const", "name": "a", "value": 1.0}, {"op": "MatMul", "name": "o", "inputs": ["x", "x"]}],
        "run": [{"fetch": ["a"]}, {"fetch": ["o"], "feed": {"x": 1.0}}],
    }
    graph["nodes"].insert(0, {"op": "Placeholder", "name": "x", "dtype": "float"})
    name = shell.write("graph.json", json.dumps(graph))
    text, document = shell("run", name), shell("run", name, "--format", "json")
    assert (text.code, document.code) == (1, 1)
    assert text.output == "1.0\n"
    found = json.loads(document.output)
    assert [row["value"] for row in found["results"]] == [1.0]
    assert found["error"]["type"] == "InvalidArgumentError"


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "--format json", "--log-placement"])
def test_a_reader_that_leaves_ends_steps_without_end(options: str, tmp_path: Path) -> None:
    (tmp_path / "endless.json").write_text(ENDLESS)
    with start_warm("run", str(tmp_path / "endless.json"), *options.split()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(100)
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_a_reader_that_leaves_is_missed_while_a_function_may_still_be_placed(tmp_path: Path) -> None:
    endless = {**CALLED, "run": [{"fetch": ["c:0"], "repeat": 1_000_000_000}]}
    (tmp_path / "endless.json").write_text(json.dumps(endless))
    with start_warm("run", str(tmp_path / "endless.json"), "--format", "json") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "--format json"])
def test_steps_without_end_are_interrupted(options: str, tmp_path: Path) -> None:
    (tmp_path / "endless.json").write_text(ENDLESS)
    with start_warm("run", str(tmp_path / "endless.json"), *options.split()) as process:
        assert process.stdout is not None
        assert process.stdout.read(100)
        ended = interrupt(process)
    assert (ended.code, ended.complaint) == (130, "")


@pytest.mark.slow
@pytest.mark.posix("limits of a process")
def test_a_large_result_needs_little_beside_itself(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_text(json.dumps({"nodes": [{"op": "Fill", "name": "x", "inputs": [[4_000_000], 0.5]}]}))
    bound = 500 << 20  # of addresses; as Python values and text it took 0.7 GB of memory

    def limit() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))

    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    with start("run", str(tmp_path / "large.json"), "--format", "json", preexec_fn=limit, env=environment) as process:
        output, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, b"")
    assert output.count(b"0.5") == 4_000_000


def test_rows_that_come_one_by_one_are_the_same_text() -> None:
    inner = [{"id": number} for number in range(3000)]
    whole = {"version": "2", "runs": [{"rows": inner, "more": []}], "rest": {"rows": inner}}
    pieces = list(
        json_text({"version": "2", "runs": iter([{"rows": iter(inner), "more": iter([])}]), "rest": {"rows": iter(inner)}})
    )
    assert "".join(pieces) == json_line(whole)
    assert max(map(len, pieces)) < len(json_line(whole)) / 4


def test_a_long_result_is_made_only_as_far_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def write(text: str) -> bool:
        written.append(text)
        return False

    monkeypatch.setattr(output, "write_result", write)
    pieces = iter(["x" * PIECE_LETTERS] * 9)
    assert not output.write_pieces(pieces)
    assert (len(written), len(list(pieces))) == (1, 8)
