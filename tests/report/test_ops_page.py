"""The manual's page of ops has every op under a heading of its own."""

from __future__ import annotations

import re

from placesim.cli.manual_pages import read_page
from placesim.inspection.op_facts import load_registry

MAX_BYTES = 700_000


def test_the_page_is_of_a_size_to_read() -> None:
    assert len(read_page("ops").encode()) < MAX_BYTES


def test_every_op_has_a_heading() -> None:
    assert re.findall(r"^### (.*)$", read_page("ops"), re.MULTILINE) == sorted(load_registry().op_names)


def test_an_entry() -> None:
    assert (
        "\n### Neg\n\n```text\n(x: T) -> (y: T)\n"
        "attr T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}\n"
    ) in read_page("ops")
