"""The page of a sweep: what is in its file, and in a real headless Chromium what a person sees."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page

from placesim.prediction.sweep_rows import Sweep, SweepIdentity, SweepRow, Value
from placesim.report.pictures.sweep_page import sweep_page
from placesim.studies.sweeping.row_store import read_sweep
from tests.report.conftest import Browser, overflowing, requested_urls

GIB = 1 << 30


def row(settings: tuple[Value, ...], seconds: float, *, fits: bool = True) -> SweepRow:
    error = None if fits else "ResourceExhaustedError: OOM when allocating a tensor"
    throughput = int(settings[2]) / seconds
    peak = (4 if fits else 20) * GIB
    where = "/job:localhost/replica:0/task:0/device:GPU:0"
    return SweepRow(
        settings,
        seconds,
        seconds * 0.9,
        seconds * 1.2,
        throughput,
        where,
        peak,
        15 * GIB,
        fits,
        7,
        1 << 20,
        "GPU:0 compute",
        0.8,
        error,
    )


def choose(page: Page, name: str, value: str) -> None:
    """Picks an entry of a list, as a person does."""
    found = f"document.querySelector('#{name}')"
    page.evaluate(f"{found}.value = '{value}'; {found}.dispatchEvent(new Event('change'))")


def sweep(name: str = "g.yaml", batches: tuple[int, ...] = (16, 32, 64)) -> Sweep:
    """Two models, one to four GPUs, some batches: the largest fits nowhere, and one GPU of the second model fails."""
    rows = []
    for model, factor in (("Tesla K80", 4.0), ("Tesla T4", 1.0)):
        for gpu in (1, 2, 4):
            for batch in batches:
                settings: tuple[Value, ...] = (gpu, model, batch)
                if model == "Tesla T4" and gpu == 1:
                    rows.append(
                        SweepRow(settings, error="InvalidArgumentError: Cannot assign a device for operation </script>b")
                    )
                else:
                    rows.append(row(settings, factor * batch / gpu / 1000, fits=batch < 64))
    return Sweep(name, ("gpu", "gpu-model", "batch"), tuple(rows), SweepIdentity("a", "b", "c"))


def test_a_page_needs_no_network_and_is_the_same_each_time() -> None:
    page = sweep_page(sweep())
    assert set(re.findall(r"""(?:src|href)=["']([^"']*)""", page)) == {"data:,"}
    assert "default-src 'none'" in page
    assert page == sweep_page(sweep())


def test_a_name_cannot_become_markup_and_rows_are_read_back() -> None:
    page = sweep_page(sweep("</script><img src=x>.yaml"))
    assert "<img" not in page
    data = re.search(r'<script type="application/json" id="sweep">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["name"] == "</script><img src=x>.yaml"
    assert read_sweep(page.encode(), "html") == sweep("</script><img src=x>.yaml")


@pytest.fixture
def page(browser: Browser) -> Page:
    """The page of a sweep with what it chooses when it opens, and the keys nowhere."""
    page = browser.look(sweep_page(sweep()))
    for name, value in (("across", "gpu"), ("lines", "batch"), ("scale", "linear")):
        choose(page, name, value)
    page.evaluate("document.activeElement.blur()")
    return page


def test_a_person_sees_small_pictures_and_a_table(browser: Browser) -> None:
    page = browser.open(sweep_page(sweep()), 390, dark=True)
    assert requested_urls(page) == [page.url]
    for width, dark in ((390, True), (390, False), (900, True), (1440, False)):
        browser.change(width, dark=dark)
        assert overflowing(page) == []
    assert page.inner_text("#facts") == "18 combinations · 5 do not fit · 3 failed"
    headings = "[...document.querySelectorAll('#measures h2')].map((e) => e.firstChild.textContent)"
    assert page.evaluate(headings) == ["Step time", "Throughput", "Peak memory"]
    titles = "[...document.querySelectorAll('#measures section:first-child h3')].map((e) => e.textContent)"
    assert page.evaluate(titles) == ["Tesla K80", "Tesla T4"]
    first = "#measures section:first-child figure"
    marks = "['path.line', '.dot', '.open', '.over'].map((s) => e.querySelectorAll(s).length)"
    counts = f"[...document.querySelectorAll('{first}')].map((e) => {marks})"
    # a cross stands on each that does not fit, and at the foot for each that failed
    assert page.evaluate(counts) == [[3, 6, 3, 3], [3, 4, 2, 5]]
    assert page.evaluate("document.querySelectorAll('#measures section:last-child line.limit').length") == 2
    assert page.evaluate("document.querySelectorAll('tbody tr').length") == 18


def test_higher_is_slower_and_the_story_is_told(page: Page) -> None:
    dots = "[...document.querySelector('#measures figure').querySelectorAll('.dot.s0')]"
    places = f"{dots}.map((e) => [+e.getAttribute('cx'), +e.getAttribute('cy')])"
    (one, two, four) = page.evaluate(places)
    assert one[0] < two[0] < four[0]
    assert one[1] < two[1] < four[1]
    assert four[0] - two[0] == pytest.approx(2 * (two[0] - one[0]))
    page.evaluate("document.querySelector('#measures .hit').dispatchEvent(new PointerEvent('pointerenter'))")
    assert page.inner_text("#story").startswith(
        "gpu 1, gpu-model Tesla K80, batch 16: 64 ms (57.6 ms to 76.8 ms); fits; bound: GPU:0 compute"
    )
    choose(page, "scale", "log")
    (one, two, four) = page.evaluate(places)
    assert four[1] - two[1] == pytest.approx(two[1] - one[1], rel=1e-6)


def test_arrow_keys_walk_through_the_values_of_a_picture(page: Page) -> None:
    assert (
        page.evaluate(
            "[...document.querySelectorAll('#measures svg')].map((e) => e.querySelectorAll('[tabindex=\"0\"]').length)"
        )
        == [1] * 6
    )
    page.evaluate("document.getElementById('theme').focus()")
    page.keyboard.press("Tab")
    told = []
    for key in ("", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        if key:
            page.keyboard.press(key)
        told.append(page.inner_text("#story").split(":")[0].replace("-model Tesla K80", ""))
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == page.inner_text("#story")
    assert told == [
        f"gpu {gpu}, gpu, batch {batch}" for gpu, batch in ((1, 16), (2, 16), (4, 16), (4, 16), (4, 32), (2, 32), (2, 16))
    ]
    assert page.evaluate("getComputedStyle(document.activeElement).strokeWidth") == "2px"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert page.inner_text("#story").startswith("gpu 2, gpu-model Tesla K80, batch 16")


def test_keys_change_places(page: Page) -> None:
    choose(page, "across", "batch")
    assert page.evaluate("document.querySelector('#lines').value") == "gpu"
    legend = "[...document.querySelectorAll('#legend span')].map((e) => e.textContent)"
    assert page.evaluate(legend) == ["gpu 1", "gpu 2", "gpu 4", "does not fit (time as if it did)", "not simulated"]
    choose(page, "lines", "")
    assert page.evaluate("document.querySelectorAll('#measures section:first-child figure').length") == 6


def test_a_head_sorts_the_table(page: Page) -> None:
    times = "[...document.querySelectorAll('tbody tr')].map((e) => e.children[3].textContent)"
    press = "[...document.querySelectorAll('th button')].find((e) => e.textContent.startsWith('step time')).click()"
    page.evaluate(press)
    assert page.evaluate(times)[:2] == ["4 ms", "8 ms"]
    assert page.evaluate(times)[-3:] == ["", "", ""]
    page.evaluate(press)
    assert page.evaluate(times)[0] == "256 ms"
    assert page.evaluate("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"


def test_a_single_row_has_a_page(browser: Browser) -> None:
    lone = Sweep(
        "g.yaml", (), (SweepRow((), 0.5, 0.4, 0.7, None, "d", 0, None, True, 0, 0, "host", 1.0),), SweepIdentity("a", "b", "c")
    )
    page = browser.open(sweep_page(lone))
    assert page.evaluate("document.querySelectorAll('#measures figure').length") >= 1
    failed = Sweep("g.yaml", ("gpu",), (SweepRow((1,), error="UsageError: no"),), SweepIdentity("a", "b", "c"))
    page = browser.open(sweep_page(failed))
    assert page.inner_text("td.why") == "UsageError: no"
