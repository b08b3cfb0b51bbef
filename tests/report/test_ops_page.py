"""The manual's page of ops is that of the op table, and has every op under a heading of its own."""

from __future__ import annotations

import re

from placesim.inspection.op_facts import load_registry
from placesim.report.ops_page import PATH, ops_page

MAX_BYTES = 700_000


def test_the_written_page_is_that_of_the_facts() -> None:
    assert PATH.read_text(encoding="utf-8") == ops_page(), "run `make tables`"
    assert PATH.stat().st_size < MAX_BYTES


def test_every_op_has_a_heading() -> None:
    assert re.findall(r"^### (.*)$", ops_page(), re.MULTILINE) == sorted(load_registry().op_names)


def test_an_entry() -> None:
    assert (
        "\n### Neg\n\n```text\n(x: T) -> (y: T)\n"
        "attr T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}\n"
    ) in ops_page()
