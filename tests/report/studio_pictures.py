"""Draws the pictures of `studio.md` with the system's Chromium: `python -m tests.report.studio_pictures`.

Other fonts give other bytes, so no test compares them; draw them anew when the page looks different.
"""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.processes import PLACESIM, ROOT, set_surroundings, start_process
from tests.report.conftest import chromium_program, wait

FOLDER = ROOT / "placesim" / "manual" / "pictures"
GRAPH = "graphs/cifar10-towers.yaml"
WINDOW = {"width": 1280, "height": 860}
COLOURS = 64
"""So many colours keep the files small, and look the same."""
EDGE = 6
"""Pixels beside the elements of a picture."""


def draw(folder: Path) -> None:
    with (
        start_process((*PLACESIM, "studio", GRAPH, "--no-browser")) as process,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium_program()) as browser,
    ):
        assert process.stdout is not None
        page = browser.new_page(viewport=WINDOW)  # type: ignore[arg-type]
        page.goto(process.stdout.readline().decode().strip())
        settle(page)
        page.drag_and_drop(".chip[data-path='conv2/']", ".device[data-device='2'] .rows")
        settle(page)
        page.click(".device[data-device='2'] .chip[data-path='conv2/']")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        wait(page, "document.querySelector('#panel .summary')")
        keep(page, folder / "studio.png")
        page.click("#undo")
        settle(page)
        page.click("#plan-open")
        page.click("#plan-start")
        wait(page, "document.querySelector('#plan-accept')")
        settle(page)
        keep(page, folder / "studio-plan.png", "#plan, #board")


def settle(page: Page) -> None:
    """Until all that was asked for is shown."""
    wait(page, "document.documentElement.dataset.ready && !document.body.classList.contains('busy')")


def keep(page: Page, path: Path, parts: str = "body") -> None:
    """Write a picture of the elements that a selector finds."""
    boxes = page.locator(parts).evaluate_all("all => all.map(each => each.getBoundingClientRect().toJSON())")
    left, top = min(box["left"] for box in boxes), min(box["top"] for box in boxes)
    right, bottom = max(box["right"] for box in boxes), max(box["bottom"] for box in boxes)
    clip = {"x": max(0, left - EDGE), "y": max(0, top - EDGE), "width": right - left + 2 * EDGE, "height": bottom - top}
    with Image.open(io.BytesIO(page.screenshot(clip=clip))) as image:  # type: ignore[arg-type]
        image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    set_surroundings()
    draw(FOLDER)
