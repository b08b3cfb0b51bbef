"""The studio in a real headless Chromium, as a teacher uses it: with the pointer, and with the keyboard alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page

from tests.cli.warm import start_warm
from tests.processes import PLACESIM, ROOT, run_process
from tests.report.conftest import Browser, overflowing, wait
from tests.report.test_accessibility import violations

pytestmark = pytest.mark.slow(8)
NARROW = 900


@contextmanager
def served(folder: Path, chromium: Browser) -> Iterator[str]:
    """The address of a studio for a copy of a graph in a folder.

    A stream of events that nobody reads keeps it from ending between two pages.
    """
    graph = Path(shutil.copy(ROOT / "graphs" / "towers.yaml", folder))
    with start_warm("studio", graph.name, "--no-browser", cwd=folder) as process:
        assert process.stdout is not None
        found = process.stdout.readline().decode().strip()
        with urlopen(f"{found}events"):
            yield found
            chromium.leave()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[str]:
    """The address of a studio that all tests here share, but those that save: its server keeps no other edits."""
    with served(tmp_path_factory.mktemp("studio"), chromium) as found:
        yield found


@pytest.fixture
def studio(browser: Browser, address: str) -> Callable[..., Page]:
    """Opens the studio in a window of a width, height and colour scheme."""
    return partial(opened, browser, address)


def opened(browser: Browser, address: str, *window: Any) -> Page:
    page = browser.visit(address, *window)
    settled(page)
    return page


def settled(page: Page) -> None:
    """Until all that was asked for is shown."""
    wait(page, "!studio.typing && !document.body.classList.contains('busy')")


def said(page: Page) -> str:
    settled(page)
    return page.inner_text("#said")


def rows(page: Page, device: int) -> list[str]:
    """The names of the rows of a device."""
    names: list[str] = page.locator(f".device[data-device='{device}'] .chip").evaluate_all(
        "rows => rows.map(row => row.dataset.path)"
    )
    return names


def test_with_the_keyboard_alone(studio: Callable[..., Page]) -> None:
    page = studio()
    page.keyboard.press("g")
    page.keyboard.press("m")
    assert page.locator("#menu [role=menuitem]").all_inner_texts() == ["CPU:0", "GPU:0", "GPU:1", "GPU:2", "GPU:3"]
    assert violations(page, inside="#menu") == []
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert said(page).startswith("AddN to GPU:0: 1 node moved")
    assert page.evaluate("document.activeElement.dataset.path") == "AddN"
    assert rows(page, 1) == ["AddN"]
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "panel"
    wait(page, "document.querySelector('#panel .summary')")
    assert "requested /device:GPU:0" in page.inner_text("#panel .summary")
    page.keyboard.press("Control+z")
    assert said(page).startswith("Undone: AddN to GPU:0: 1 node moved")
    assert rows(page, 0) == ["AddN"]
    page.keyboard.press("Control+Shift+z")
    assert said(page).startswith("Made again: AddN to GPU:0")
    page.keyboard.press("e")
    page.keyboard.press("t")  # typed, not the switch of light and dark
    wait(page, "document.querySelector('#problems li')")
    assert "The last placement stays" in said(page)
    assert rows(page, 1) == ["AddN"]


def test_axe_finds_nothing_and_nothing_is_cut(studio: Callable[..., Page], browser: Browser) -> None:
    page = studio(NARROW, 900, True)
    page.click(".chip[data-path='MatMul_1']")
    page.press(".chip[data-path='MatMul_1']", "m")
    page.keyboard.press("Enter")
    assert said(page).startswith("MatMul_1 to CPU:0")
    wait(page, "document.querySelector('#panel .summary')")
    for width, dark in ((NARROW, True), (1400, False)):
        browser.change(width, 900, dark)
        assert page.evaluate("studio.theme.isDark") == dark
        assert violations(page) == []
        assert overflowing(page) == []
        page.click("#theme")
        assert violations(page, "color-contrast") == []


def test_all_of_a_device_is_dragged_at_once(studio: Callable[..., Page]) -> None:
    page = studio()
    page.drag_and_drop(".device[data-device='4'] h3", ".device[data-device='1'] .rows")
    assert said(page).startswith("Const_2 and 2 others to GPU:0: 3 nodes moved")
    assert rows(page, 1) == ["Const_2", "Const_3", "MatMul_1"]


def test_a_finger_drags_after_a_hold_and_scrolls_without(studio: Callable[..., Page]) -> None:
    page = studio()
    touch = page.context.new_cdp_session(page)

    def place(where: str) -> tuple[float, float]:
        box = page.locator(where).bounding_box()
        assert box is not None
        return box["x"] + 30, box["y"] + 10

    def send(kind: str, *points: tuple[float, float]) -> None:
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    for is_held in (False, True):
        send("touchStart", place(".chip[data-path='AddN']"))  # which the finger before may have scrolled
        if is_held:
            wait(page, "studio.board.drag?.ghost")
        send("touchMove", place(".device[data-device='1'] .rows"))
        send("touchEnd")
        assert said(page).startswith("AddN to GPU:0") == is_held
    assert rows(page, 1) == ["AddN"]


def test_an_edit_right_after_a_key_keeps_what_was_typed(studio: Callable[..., Page]) -> None:
    page = studio()
    page.click(".cm-line >> nth=0")
    page.keyboard.press("Control+Home")
    page.keyboard.type("#")
    page.evaluate("studio.move(['AddN'], '/gpu:0')")
    assert said(page).startswith("AddN to GPU:0: 1 node moved")
    assert page.evaluate("studio.now.text === studio.editor.text && studio.editor.text.startsWith('##')")
    page.click("#undo")
    page.click("#undo")
    settled(page)
    assert page.evaluate("studio.editor.text === studio.start.state.text")


def test_words_are_completed_by_what_stands_around_them(studio: Callable[..., Page]) -> None:
    page = studio()
    wait(page, "studio.words.ops.size")

    def completed(typed: str) -> list[str]:
        """The first words offered where a line of `nodes` has come so far."""
        text = f"nodes:\n  - {{op: Const, id: one, value: 1}}\n{typed}"
        found: list[str] = page.evaluate(
            "text => (studio.words.complete(text, text.length, true)?.options ?? []).map(word => word.label)", text
        )
        return found

    assert {"MatMul", "BatchMatMul"} <= set(completed("  - {op: MatM"))
    assert completed("  - {op: MatMul, device: ")[:2] == ["/device:CPU:0", "/device:GPU:0"]
    assert set(completed("  - {op: MatMul, attrs: {")) >= {"transpose_a", "transpose_b"}
    assert {"one", "MatMul_1"} <= set(completed("  - {op: Neg, inputs: ["))
    assert {"inputs", "device", "attrs"} <= set(completed("  - {op: Neg, "))
    assert completed("  - {op: Placeholder, shape: ") == []
    told = page.evaluate("studio.words.tell('op: MatMul', 6).dom.textContent")
    assert told.startswith("MatMul(a: T, b: T) -> (product: T)")
    assert "kernel GPU" in told


def test_a_shared_page_shows_the_same_without_a_server(studio: Callable[..., Page], browser: Browser) -> None:
    page = studio()
    page.evaluate("studio.move(['MatMul'], '/gpu:0')")
    settled(page)
    headline = page.inner_text("#headline")
    text = page.evaluate("studio.server.ask('save', {state: studio.now, kind: 'page'}).then(saved => saved.content)")
    page = browser.open(text)
    assert page.inner_text("#headline") == headline
    assert rows(page, 1) == ["MatMul"]
    assert page.locator("#edits .edit-text").all_inner_texts() == ["MatMul → GPU:0"]
    page.click(".chip[data-path='MatMul']")
    assert "/device:GPU:0" in page.inner_text("#panel")
    page.keyboard.press("m")
    assert page.locator("#menu, #undo, #save, .cm-editor").locator("visible=true").count() == 0
    assert violations(page) == []


def test_an_option_changes_the_machine(studio: Callable[..., Page]) -> None:
    page = studio()
    page.click("[aria-label='Remove a GPU']")
    assert "TensorFlow refuses the graph. The last placement stays" in said(page)
    assert "available devices are" in page.inner_text("#error")
    assert page.locator(".stale .device").count() == 5
    assert rows(page, 4) == ["Const_2", "Const_3", "MatMul_1"]
    assert page.locator(".cm-lint-marker-error").count() == 1
    page.click("#error button")
    wait(page, "document.querySelector('#panel .summary')")
    assert "not placed, requested: /device:GPU:3" in page.inner_text("#panel")
    assert violations(page) == []
    page.check("#option-soft_placement")
    assert said(page).startswith("Soft placement: on")
    assert page.inner_text("#error") == ""
    assert page.locator("#edits .edit-text").all_inner_texts() == ["GPUs: 4 → 3", "Soft placement: off → on"]
    page.click("[aria-label='Remove: GPUs: 4 → 3']")
    assert said(page).startswith("removed: GPUs: 4 → 3")
    assert page.input_value("#option-gpu") == "4"
    assert page.locator("#edits .edit-text").all_inner_texts() == ["Soft placement: off → on"]
    page.click("#option-link summary")
    page.fill("#link-from", "GPU:0")
    page.fill("#link-to", "GPU:9")
    page.fill("#link-bandwidth", "25GB/s")
    page.keyboard.press("Enter")
    assert page.inner_text("#link-to-wrong").startswith("The machine has no GPU:9: expected CPU:0")
    assert page.evaluate("document.activeElement.id") == "link-to"
    page.fill("#link-to", "host")
    page.keyboard.press("Enter")
    assert said(page).startswith("Links: GPU:0-host=25GB/s")
    assert page.inner_text("#option-link li span") == "GPU:0 ↔ host: 25GB/s"
    page.evaluate("studio.saves.writeEdits()")
    assert said(page).startswith("edits written into the text: no node moved")
    assert page.evaluate("studio.now.options") == {}
    text = page.evaluate("studio.editor.text")
    assert "allow_soft_placement: true" in text
    assert "links: [{between: ['GPU:0', host], bandwidth: 25GB/s}]" in text


@pytest.fixture
def own_address(tmp_path: Path, chromium: Browser) -> Iterator[str]:
    """The address of a studio for a graph that a test may save; it ends after `browser`, which comes after it."""
    chromium.leave()  # the page of the other studio
    with served(tmp_path, chromium) as found:
        yield found


def test_a_third_tower_is_typed_dragged_explained_planned_saved_and_run(
    own_address: str, browser: Browser, tmp_path: Path
) -> None:
    page, graph = opened(browser, own_address), tmp_path / "towers.yaml"
    page.click(".cm-line >> nth=6")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.type(", /device:GPU:0")
    wait(page, "document.querySelector('#said').textContent.includes('3 added')")
    settled(page)
    assert rows(page, 1) == ["Const_4", "Const_5", "MatMul_2"]
    page.drag_and_drop(".chip[data-path='MatMul_2']", ".device[data-device='2'] .rows")
    assert said(page).startswith("MatMul_2 to GPU:1: 1 node moved, 2 more copied between devices")
    assert rows(page, 2) == ["MatMul_2"]
    assert page.locator("#headline .worse").count() == 1
    assert [text.partition(":")[0] for text in page.locator(".lanes-name").all_inner_texts()] == ["Before", "Now"]
    assert "copied in this step only" in page.inner_text("#legend")
    page.click(".chip[data-path='MatMul_2']")
    wait(page, "document.querySelector('#panel .summary')")
    assert "requested /device:GPU:1" in page.inner_text("#panel .summary")
    page.click("#plan-open")
    page.fill("#plan-seconds", "20")  # it ends as soon as nothing can be faster
    page.click("#plan-start")
    wait(page, "document.querySelector('#plan-edits button')")
    settled(page)
    assert page.locator("#headline .better").count() == 1
    assert violations(page) == []
    page.click("#plan-accept")
    assert said(page).startswith("plan accepted: ")
    page.click("#save")
    page.click("text=Save towers.yaml")
    wait(page, "document.querySelector('#said').textContent.startsWith('Saved')")
    assert "# Several GPUs in a multi-tower fashion" in graph.read_text("utf-8")
    shown = page.evaluate("studio.placement.deviceOf('MatMul_2')")
    output = run_process((*PLACESIM, "run", graph, "--quiet"), check=True).output
    assert f"MatMul_2: (MatMul): /job:localhost/replica:0/task:0/device:{shown}\n" in output
    assert output.endswith("[[ 66.  84.]\n [147. 192.]]\n")
