"""Axe-core finds nothing wrong in any page: names, roles, contrast, and what keys reach."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

import placesim
from placesim.report.pictures.sweep_page import sweep_page
from tests.report.conftest import Browser, wait
from tests.report.test_sweep_page import sweep

GRAPH: dict[str, Any] = {
    "devices": {"cpu": 1, "gpu": 2},
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64, 64], "device": "/cpu:0"},
        {"scope": "a", "device": "/gpu:0", "nodes": [{"op": "MatMul", "name": "y", "inputs": ["x", "x"]}]},
        {"scope": "b", "device": "/gpu:1", "nodes": [{"op": "MatMul", "name": "z", "inputs": ["a/y", "x"]}]},
    ],
    "fetch": ["b/z"],
}


def violations(page: Page, *rules: str, inside: str | None = None) -> list[str]:
    """What breaks these rules of axe-core, or any rule, in the page or an element that a selector finds."""
    # what scrolls becomes focusable when its size is known, which is after the first frame
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")
    axe = Axe("0") if page.evaluate("'axe' in window") else Axe()  # a page that has axe-core needs no second one
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    found = axe.run(page, inside, options).response["violations"]
    return [f"{rule['id']}: {node['html']}" for rule in found for node in rule["nodes"]]


def page_of(kind: str) -> str | None:
    if kind == "sweep":
        return sweep_page(sweep(batches=(16, 64)))
    if kind == "plan":
        return placesim.plan(GRAPH, page=True, free=["*"], evaluations=20, jobs=1).page()
    if kind == "show":
        return placesim.show(GRAPH).page()
    return placesim.simulate(GRAPH).page() if kind == "simulate" else placesim.memory(GRAPH).page()


@pytest.mark.parametrize("kind", ["show", "simulate", "memory", "sweep", "plan"])
def test_axe_finds_nothing(browser: Browser, kind: str) -> None:
    text = page_of(kind)
    assert text is not None
    page = browser.open(text)
    assert violations(page) == []
    page.keyboard.press("t")
    assert violations(page, "color-contrast") == []
    if page.query_selector("#help"):
        page.keyboard.press("?")
        assert violations(page, inside="dialog[open]") == []


def test_a_table_is_reached_by_tab_while_it_is_too_wide(browser: Browser) -> None:
    text = page_of("memory")
    assert text is not None
    page = browser.open(text)
    for width, is_reached in (("0", False), ("9000px", True), ("0", False)):
        page.evaluate("width => { document.querySelector('.scroll > table').style.minWidth = width; }", width)
        wait(page, f"(document.querySelector('.scroll').tabIndex === 0) === {str(is_reached).lower()}")


def test_axe_would_find_it(browser: Browser) -> None:
    page = browser.open(
        "<!DOCTYPE html><html lang='en' data-ready='true'><title>t</title><main><h1>t</h1><button></button></main>"
    )
    assert [found.partition(":")[0] for found in violations(page)] == ["button-name"]
