"""The documentation site has every page of the manual and every name of the Python API."""

from __future__ import annotations

import re

import placesim
from placesim.cli.manual_pages import topics
from tests.processes import ROOT

LEFT_OUT = {"ops"}
"""`placesim manual ops` is 21,000 lines made from tables, which `placesim ops NAME` searches better."""


def test_every_page_of_the_manual_is_listed() -> None:
    listed = set(re.findall(r"^([a-z0-9-]+)$", (ROOT / ".docs/index.md").read_text(), re.MULTILINE))
    assert set(topics()) - LEFT_OUT == listed - {"commands", "api"}


def test_every_public_name_is_described() -> None:
    described = re.findall(
        r"^\.\. auto(?:function|class|exception):: placesim\.(\w+)$", (ROOT / ".docs/api.rst").read_text(), re.M
    )
    assert sorted(described) == sorted(placesim.__all__)
