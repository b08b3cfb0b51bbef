"""Any folder of scripts against its recording, by topic."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.tf1.compare import argv_of, call_of, main

SCRIPT = """\
import sys
import tensorflow as tf
made = []
def main(argv):
    tf.constant(1.0, name=sys.argv[1] if len(sys.argv) > 1 else 'none')
    print(__name__ == '__main__', argv)
if __name__ == '__main__':
    main(None)
"""


def record(name: str, node: str, stdout: str, **more: Any) -> dict[str, Any]:
    value = {"dtype": {"type": "DT_FLOAT"}, "value": {"tensor": {"dtype": "DT_FLOAT", "shape": [], "values": [1.0]}}}
    graph: dict[str, Any] = {
        "default": True,
        "seed": None,
        "node": [{"name": node, "op": "Const", "attr": value}],
        "collection": {},
    }
    graph |= {"outputs": {node: [["float32", []]]}}
    return {"id": name, "mode": "plain", "stdout": stdout, "session": [], "graph": [graph], **more}


def written(folder: Path, records: list[dict[str, Any]]) -> Path:
    path = folder / "graphs.jsonl.gz"
    with gzip.open(path, "wt") as lines:
        lines.writelines(json.dumps(one) + "\n" for one in records)
    return path


def test_scripts_and_nodes_are_counted_by_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a_1", "a_2", "b_1"):
        (tmp_path / f"{name}.py").write_text(SCRIPT)
    path = written(
        tmp_path,
        [
            record("a_1", "x", "True None\n", argv=["x"]),
            record("a_2", "y y", "False 3\n", argv="'y y'", call=["print", "main(3)"]) | {"graph": []},
            record("b_1", "x", "False None\n", argv="x --more", call="main(None)"),
            record("c_1", "x", ""),
        ],
    )
    assert main([str(tmp_path), str(path), "--show", "9"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line and line[0] in "abc" and ":" not in line] == [
        ["a", "1/2", "1/1"],
        ["b", "1/1", "1/1"],
        ["c", "0/1", "0/1"],
        ["all", "2/4", "2/3"],
    ]
    assert any(line.startswith("c_1: no script ") for line in lines)
    assert main([str(tmp_path), str(path), "a_1"]) == 0


def test_a_command_line_and_a_call_may_be_lists_or_texts() -> None:
    assert argv_of({"argv": "--n 3 'a b'"}) == argv_of({"argv": ["--n", 3, "a b"]}) == ["--n", "3", "a b"]
    assert call_of({"call": ["f()", "g()"]}) == call_of({"call": "f()\ng()"}) == "f()\ng()"
    assert (argv_of({}), call_of({})) == ([], "")


@pytest.mark.parametrize("graphs", ["missing.jsonl.gz", "broken.jsonl.gz", "list.jsonl.gz"])
def test_where_there_is_nothing_to_compare_that_is_said(
    tmp_path: Path, graphs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.jsonl.gz").write_text("{")
    (tmp_path / "list.jsonl.gz").write_text("[1]\n")
    assert main([str(tmp_path), str(tmp_path / graphs)]) == 2
    assert "no recording: " in capsys.readouterr().err
    path = written(tmp_path, [record("a_1", "x", "")])
    assert main([str(tmp_path), str(path)]) == 2
    assert "no scripts in " in capsys.readouterr().err
    assert main([str(tmp_path / "nowhere"), str(path)]) == 2
    (tmp_path / "a_1.py").write_text(SCRIPT)
    assert main([str(tmp_path), str(path), "zzz"]) == 2
