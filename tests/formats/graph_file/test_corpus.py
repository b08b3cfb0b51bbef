"""Every graph that was recorded reads in its raw form."""

from __future__ import annotations

from pathlib import Path

import pytest

from placesim.formats.graph_file.reader import graph_file_from_mapping
from tests.formats.readings import DATA
from tests.placement.corpus import read_cases

FILES = sorted(DATA.glob("placement-*.jsonl.gz"))


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_reads(path: Path) -> None:
    for case in read_cases(str(path)):
        file = graph_file_from_mapping(case["graph"], case["id"])
        assert [node.name for node in file.graph.nodes] == [node["name"] for node in case["graph"]["nodes"]]


def test_the_recordings_are_here() -> None:
    assert len(FILES) >= 8
