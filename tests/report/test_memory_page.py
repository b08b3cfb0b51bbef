"""The page of a graph's memory: what is in its file, and in a real headless Chromium what a person sees."""

from __future__ import annotations

import json
import re
from io import BytesIO, StringIO

import pytest

from placesim.formats.sources.loading import load
from placesim.inspection.memory_requirements import MemoryStudy, largest_holdings
from placesim.machine.options import make_options
from placesim.report.pictures.memory_page import memory_page
from placesim.report.terminal.memory import styled_memory
from placesim.studies.memory_study import MemoryStudyRequest, study_memory
from tests.report.conftest import Browser, overflowing, requested_urls

GRAPH = """
devices: {cpu: 1, gpu: {count: 1, memory: 24MiB}}
config: {gpu_options: {experimental: {gpu_system_memory_size_in_mb: 4}}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 262144]}
  - {op: Neg, name: a, inputs: [x], device: /gpu:0}
  - {op: Max, name: c, inputs: [a, [0, 1]], device: /gpu:0}
fetch: [c]
"""


def study(batch: int, name: str = "g.yaml") -> MemoryStudy:
    options = make_options({"batch": batch})
    return study_memory(load(BytesIO(GRAPH.encode()), name, options), options, name, MemoryStudyRequest(dumps=True))


def test_a_page_needs_no_network_and_is_the_same_each_time() -> None:
    page = memory_page(study(4), 10)
    assert set(re.findall(r"""(?:src|href)=["']([^"']*)""", page)) == {"data:,"}
    assert "default-src 'none'" in page
    assert page == memory_page(study(4), 10)


def test_a_terminal_shows_the_fullest_device_first() -> None:
    text = styled_memory(study(16), StringIO(), 10)
    assert 0 <= text.find("GPU:0  limit") < text.find("CPU:0  no limit")


def test_a_name_cannot_become_markup() -> None:
    page = memory_page(study(4, "</script><img src=x>.yaml"), 10)
    assert "<img" not in page
    data = re.search(r'<script type="application/json" id="study">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["graph"] == "</script><img src=x>.yaml"


@pytest.mark.parametrize("batch", [4, 16])
def test_a_person_sees_a_card_for_each_device(browser: Browser, batch: int) -> None:
    seen = study(batch)
    page = browser.open(memory_page(seen, 10), 390)
    assert page.evaluate("[...document.querySelectorAll('.card h2')].map((e) => e.textContent)")[1:] == ["GPU:0", "CPU:0"]
    for width, dark in ((390, False), (900, True), (1440, False)):
        browser.change(width, dark=dark)
        assert overflowing(page) == []
    assert page.evaluate("document.querySelectorAll('svg path.edge').length") == 2
    assert page.evaluate("document.getElementById('error').hidden") is seen.fits
    rows = page.evaluate(
        "[...document.querySelectorAll('[aria-label=\"GPU:0\"] tbody tr')].map((e) => e.children[1].textContent)"
    )
    assert rows == [holding.name for holding in largest_holdings(seen.devices[1].needed.holders, 10)]
    assert ("the peak of GPU:0 is then" in page.inner_text("#needs")) is not seen.fits
    assert requested_urls(page) == [page.url]


def test_a_limit_that_is_near_is_a_line(browser: Browser) -> None:
    page = browser.open(memory_page(study(8), 10))
    assert page.inner_text(".limited") == "limit 20 MiB"
    assert page.evaluate("document.querySelectorAll('.scale')[0].textContent") == "010 MiB20 MiB"
    assert page.inner_text(".categories") == "activations 8.0 MiB\ntemporaries 1.3 KiB"
    # the keyboard reads the curve
    page.focus("[role=slider]")
    page.keyboard.press("Home")
    assert page.inner_text("figcaption >> nth=0") == "8.0 MiB in use in part 1 of 5"


def test_a_limit_that_is_far_above_is_told(browser: Browser) -> None:
    page = browser.open(memory_page(study(2), 10))
    assert page.inner_text(".limited") == "limit 20 MiB, not to scale"
