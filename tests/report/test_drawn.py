"""The buttons that save what a page shows as SVG or PNG, in a real headless Chromium."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

import placesim
from placesim.report.pictures.html_page import html_page
from placesim.report.pictures.memory_page import memory_page
from placesim.report.pictures.sweep_page import sweep_page
from placesim.report.readings import Reading
from tests.inspection.pictures import picture
from tests.report.conftest import Browser, wait
from tests.report.test_memory_page import study
from tests.report.test_sweep_page import sweep

SVG = "{http://www.w3.org/2000/svg}"
GRAPH = """
devices: {cpu: 1, gpu: 2}
config: {allow_soft_placement: true}
nodes:
  - {op: Const, name: a, value: [1.0, 2.0]}
  - {scope: s, nodes: [{op: Neg, name: n, inputs: [a], device: /gpu:0}, {op: Neg, name: m, inputs: [n], device: /gpu:1}]}
fetch: [s/m]
"""


def saved(page: Page, ending: str) -> tuple[str, bytes]:
    """The name and the bytes of the file that a button saves."""
    with page.expect_download() as found:
        page.evaluate(f"document.getElementById('{ending}').click()")
    return found.value.suggested_filename, found.value.path().read_bytes()


def texts(root: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def check_picture(root: ElementTree.Element) -> None:
    """It has a size, needs nothing outside, and each of its names is one thing's."""
    assert float(root.attrib["width"]) > 0
    assert float(root.attrib["height"]) > 0
    names = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert len(names) == len(set(names))
    for element in root.iter():
        assert element.get("href", "data:").startswith("data:")
        used = [value[5:-1] for value in element.attrib.values() if value.startswith("url(#")]
        assert set(used) <= set(names)


@pytest.mark.parametrize("arrangement", ["lanes", "scopes"])
def test_the_arrangement_that_is_seen_is_saved(browser: Browser, arrangement: str) -> None:
    page = browser.open(html_page(picture(GRAPH, name="graphs/two gpus.yaml")))
    if arrangement == "scopes":
        page.keyboard.press("v")
        wait(page, "thePage.views.scopes?.fits !== undefined && document.getElementById('status').textContent === ''")
    name, drawn = saved(page, "svg")
    assert name == "two_gpus.svg"
    root = ElementTree.fromstring(drawn)
    check_picture(root)
    shown = texts(root)
    names = {"a", "s/n", "s/m", "8 B"} if arrangement == "lanes" else {"a", "n", "m", "▾ s · 2 ops", "8 B"}
    assert names <= set(shown)
    assert shown[0] == "graphs/two gpus.yaml · 3 ops on 3 devices · 2 transfers, 16 B"
    assert shown[-1] == "copied between devices"
    image = saved(page, "png")[1]
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(image[16:20]) == 2 * float(root.attrib["width"])


def test_what_is_scrolled_out_of_sight_is_in_the_picture(browser: Browser) -> None:
    page = browser.open(html_page(picture(GRAPH, gpu=40)), height=500)
    shown = texts(ElementTree.fromstring(page.evaluate("svgText(pictureOf(thePage.graph.drawn()))")))
    assert {f"GPU:{number}" for number in range(40)} <= set(shown)


@pytest.fixture(scope="module")
def pages() -> dict[str, str | None]:
    """A page of each other kind, and the beginning of what its picture says."""
    source = {"devices": {"cpu": 1, "gpu": 2}, "nodes": [{"op": "Const", "name": "a", "value": 1.0}], "fetch": ["a"]}
    return {
        "simulate": placesim.simulate(source).page(),
        "memory": memory_page(study(4), 10),
        "sweep": sweep_page(sweep()),
        "plan": placesim.plan(source, page=True, free=["*"]).page(),
    }


@pytest.mark.parametrize(
    ("kind", "says"), [("simulate", "CPU:0"), ("memory", "CPU:0"), ("sweep", "Step time"), ("plan", "Before")]
)
def test_every_page_saves_its_picture(browser: Browser, pages: dict[str, str | None], kind: str, says: str) -> None:
    found = pages[kind]
    assert found is not None
    page = browser.open(found)
    root = ElementTree.fromstring(saved(page, "svg")[1])
    check_picture(root)
    assert says in texts(root)
    assert saved(page, "png")[1].startswith(b"\x89PNG")


def test_a_notebook_has_several_pages_in_frames_of_their_own(browser: Browser) -> None:
    nodes = [
        {"op": "Const", "name": name, "value": 1.0, "device": device} for name, device in (("a", "/cpu:0"), ("b", "/gpu:0"))
    ]
    source = {"devices": {"cpu": 1, "gpu": 2}, "nodes": nodes, "fetch": ["a", "b"]}
    reports: tuple[Reading, ...] = (
        placesim.show(source),
        placesim.simulate(source),
        placesim.memory(source),
        placesim.sweep(source, {"gpu": [1, 2]}),
        placesim.plan(source, page=True, free=["*"], evaluations=2, jobs=1),
        placesim.show(source),
    )
    frames = "".join(report._repr_html_() for report in reports)
    page = browser.open(f"<!DOCTYPE html><html data-ready='true'><meta charset='utf-8'>{frames}</html>")
    wait(page, "[...document.querySelectorAll('iframe')].every((e) => e.contentDocument.documentElement.dataset.ready)")
    first, *_, last = page.frames[1:]
    first.evaluate("thePage.select(0)")
    assert (first.evaluate("thePage.chosen"), last.evaluate("thePage.chosen")) == (0, None)
    assert page.url.endswith(".html")
