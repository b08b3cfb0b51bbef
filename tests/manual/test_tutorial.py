"""The tutorial: its cells print what is shown, and its code is what mypy reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from placesim.cli.manual_pages import read_page
from tests.documents import blocks, is_same
from tests.notebook import EXPORT, code_cells, exported, output_text, read_notebook, run_cells


@pytest.mark.slow(5)
def test_the_cells_print_what_is_shown(tmp_path: Path) -> None:
    notebook = read_notebook()
    for cell, outputs in zip(code_cells(notebook), run_cells(notebook, tmp_path), strict=True):
        assert [part["output_type"] for part in outputs] == [part["output_type"] for part in cell["outputs"]]
        assert is_same(output_text(outputs), output_text(cell["outputs"])), "".join(cell["source"])


def test_mypy_reads_its_code() -> None:
    assert EXPORT.read_text("utf-8") == exported(read_notebook())


def test_its_page_has_its_cells_and_outputs() -> None:
    notebook, page = read_notebook(), read_page("tutorial")
    shown = [block.text for block in blocks(page)]
    texts = [["".join(cell["source"]) + "\n", output_text(cell["outputs"])] for cell in code_cells(notebook)]
    assert [text.rstrip("\n") for text in shown] == [text.rstrip("\n") for cell in texts for text in cell if text]
