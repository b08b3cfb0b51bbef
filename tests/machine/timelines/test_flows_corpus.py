"""Every recorded set of transfers ends as it did."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.prediction.compare_flows import differences, read_flows
from tests.processes import run_process

DATA = Path(__file__).parent.parent.parent / "data" / "timelines"
FILE = DATA / "flows.jsonl.gz"
CASES = read_flows(FILE)


def test_all_cases_agree() -> None:
    found = {case["id"]: list(differences(case)) for case in CASES}
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize("factor", [1 + 2e-9, 1 - 2e-9])
def test_the_comparison_notices(factor: float) -> None:
    for case in CASES:
        assert len(list(differences({**case, "end": [end * factor for end in case["end"]]}))) == len(case["flows"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"links": []}, "not in the form of a case: KeyError('l2')"),
        ({"flows": [{}]}, "not in the form of a case: KeyError('start')"),
        (
            {"links": [{"name": "l2", "bandwidth": -1, "latency": 0}], "flows": []},
            "refused: link 'l2' has a bandwidth of -1 bytes/s",
        ),
        ({"end": []}, "3 flows end, expected 0"),
    ],
)
def test_a_case_that_makes_no_sense_does_not_agree(change: dict[str, list[object]], said: str) -> None:
    assert next(differences({**CASES[0], **change})).startswith(said)


def test_the_command_says_what_agrees(tmp_path: Path) -> None:
    changed = tmp_path / "changed.jsonl"
    changed.write_text(json.dumps({**CASES[0], "end": [0.25, *CASES[0]["end"][1:]]}) + "\n" + json.dumps(CASES[1]) + "\n")
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "x"}\n')

    def run(*files: Path) -> tuple[int, str]:
        code, output, complaint = run_process((sys.executable, "-m", "tests.prediction.compare_flows", *map(str, files)))
        assert not complaint
        return code, output

    assert run(FILE) == (0, f"{FILE}: 450 / 450 agreed\n")
    code, out = run(changed, other, tmp_path / "missing")
    assert code == 1
    assert f"{changed}: 1 / 2 agreed" in out
    assert "flow 0 ends at 0.002005096, expected 0.25" in out
    assert f"{other}: no recording of transfers: line 1 is no case of transfers" in out
    assert f"{tmp_path / 'missing'}: no recording of transfers" in out
