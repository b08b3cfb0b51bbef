"""The buttons that save what a page shows as SVG or PNG, in a real headless Chromium."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import placesim
from placesim.report.pictures.html_page import html_page
from placesim.report.pictures.memory_page import memory_page
from placesim.report.pictures.sweep_page import sweep_page
from tests.browser.chromium import Browser, Page, open_browser
from tests.inspection.pictures import picture
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


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def saved(browser: Browser, page: Page, ending: str, folder: Path) -> Path:
    """The file that a button saves."""
    browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.value(f"document.getElementById('{ending}').click()")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := list(folder.glob(f"*.{ending}")):
            return found[0]
        time.sleep(0.05)
    raise TimeoutError(f"nothing was saved; the page says {page.complaints()}")


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


@pytest.mark.browser
@pytest.mark.parametrize("arrangement", ["lanes", "scopes"])
def test_the_arrangement_that_is_seen_is_saved(browser: Browser, tmp_path: Path, arrangement: str) -> None:
    (tmp_path / "page.html").write_text(html_page(picture(GRAPH, name="graphs/two gpus.yaml")), "utf-8")
    page = browser.open(tmp_path / "page.html")
    if arrangement == "scopes":
        page.press("v")
        page.wait("thePage.views.scopes?.fits !== undefined && document.getElementById('status').textContent === ''")
    drawn = saved(browser, page, "svg", tmp_path)
    assert drawn.name == "two_gpus.svg"
    root = ElementTree.parse(drawn).getroot()
    check_picture(root)
    shown = texts(root)
    names = {"a", "s/n", "s/m", "8 B"} if arrangement == "lanes" else {"a", "n", "m", "▾ s · 2 ops", "8 B"}
    assert names <= set(shown)
    assert shown[0] == "graphs/two gpus.yaml · 3 ops on 3 devices · 2 transfers, 16 B"
    assert shown[-1] == "copied between devices"
    image = saved(browser, page, "png", tmp_path).read_bytes()
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(image[16:20]) == 2 * float(root.attrib["width"])
    assert page.complaints() == []


@pytest.mark.browser
def test_what_is_scrolled_out_of_sight_is_in_the_picture(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(html_page(picture(GRAPH, gpu=40)), "utf-8")
    page = browser.open(tmp_path / "page.html", height=500)
    shown = texts(ElementTree.fromstring(page.value("svgText(pictureOf(thePage.graph.drawn()))")))
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


@pytest.mark.browser
@pytest.mark.parametrize(
    ("kind", "says"), [("simulate", "CPU:0"), ("memory", "CPU:0"), ("sweep", "Step time"), ("plan", "Before")]
)
def test_every_page_saves_its_picture(
    browser: Browser, tmp_path: Path, pages: dict[str, str | None], kind: str, says: str
) -> None:
    found = pages[kind]
    assert found is not None
    (tmp_path / "page.html").write_text(found, "utf-8")
    page = browser.open(tmp_path / "page.html")
    root = ElementTree.parse(saved(browser, page, "svg", tmp_path)).getroot()
    check_picture(root)
    assert says in texts(root)
    assert saved(browser, page, "png", tmp_path).read_bytes().startswith(b"\x89PNG")
    assert page.complaints() == []
