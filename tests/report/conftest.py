"""One headless Chromium for all pages that tests look at."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The first takes an eighth less of the processor's time: it draws no window around a page."""
FLAGS = ("--disable-gpu", "--disable-quic", "--js-flags=--max-opt=2 --invocation-count-for-maglev=2000")
"""A page is seen for a second: V8's last compiler takes more time than it saves, the one before for what runs often only."""
WINDOW = (1440, 900, False)
"""The width and height of a window, and whether it is dark, unless a test says so."""
WAIT_MILLISECONDS = 60_000


class Browser:
    """Shows one file after another in the same tab: a tab for each takes four times the processor's time."""

    def __init__(self, page: Page, directory: Path) -> None:
        self.loop = asyncio.get_running_loop()
        self._page = page
        self._directory = directory
        self._count = 0
        self._seen = ""

    def open(self, text: str, width: int = WINDOW[0], height: int = WINDOW[1], dark: bool = WINDOW[2]) -> Page:
        """A page's text as a file in the tab, once it says that it is ready."""
        self.check()
        self._count += 1
        path = self._directory / f"{self._count}.html"
        path.write_text(text, "utf-8")
        page = self._visited(path.as_uri(), width, height, dark)
        self._seen = text
        return page

    def visit(self, address: str, width: int = WINDOW[0], height: int = WINDOW[1], dark: bool = WINDOW[2]) -> Page:
        """The page at an address of this machine, once it says that it is ready."""
        self.check()
        self._seen = ""
        return self._visited(address, width, height, dark)

    @contextmanager
    def running(self) -> Iterator[None]:
        """While it lasts, Playwright's event loop is the one that runs in this thread; other tests find none running."""
        asyncio._set_running_loop(self.loop)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def leave(self) -> None:
        """Leave a page whose server is about to end, which the page would complain about.

        The next page then needs a process of its own, half of what a page of the studio takes.
        """
        with self.running():
            self.check()
            self._page.goto("about:blank")

    def _visited(self, address: str, width: int, height: int, dark: bool) -> Page:
        self._set_window(width, height, dark)
        self._page.goto(address)
        wait(self._page, "document.documentElement.dataset.ready === 'true'")
        return self._page

    def look(self, text: str, width: int = WINDOW[0]) -> Page:
        """A page as the test before left it, where it opened the same one, in a light window that is made this wide."""
        if self._seen != text:
            return self.open(text, width)
        self.change(width)
        return self._page

    def change(self, width: int = WINDOW[0], height: int = WINDOW[1], dark: bool = WINDOW[2]) -> None:
        """Make the window so large, light or dark, and point at nothing in it, until the page has heard of it.

        That is in one frame, and what it then draws is in the next.
        """
        self._set_window(width, height, dark)
        wait(self._page, f"matchMedia('(prefers-color-scheme: dark)').matches === {json.dumps(dark)}")
        self._page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def _set_window(self, width: int, height: int, dark: bool) -> None:
        if self._page.evaluate("document.querySelector(':hover') !== null"):
            self._page.mouse.move(-1, -1)
        self._page.set_viewport_size({"width": width, "height": height})
        self._page.emulate_media(media="null", color_scheme="dark" if dark else "light")

    def check(self) -> None:
        """Assert that the page threw nothing, wrote nothing to the console and asked no network but where it comes from.

        A page that did is left, so that it fails one test and not those after it.
        """
        own = self._page.url.partition("#")[0]
        asked = [url for url in requested_urls(self._page) if not (own.startswith("http:") and url.startswith(own))]
        try:
            assert self._page.page_errors(filter="since-navigation") == []
            assert [message.text for message in self._page.console_messages(filter="since-navigation")] == []
            assert {url.partition(":")[0] for url in asked} <= {"file", "blob", "data"}
        except AssertionError:
            self._page.goto("about:blank")
            self._seen = ""
            raise


def chromium_program() -> str:
    """The path of this machine's Chromium."""
    program = next((path for name in PROGRAMS if (path := shutil.which(name)) is not None), None)
    if program is None:
        raise FileNotFoundError("no Chromium on this machine: `apt-get install chromium`, or put one on the PATH")
    return program


def wait(page: Page, expression: str) -> None:
    """Until an expression of JavaScript is true, else Playwright's Error.

    Playwright's own `wait_for_function` evaluates a string in the page, which our pages forbid.
    """
    page.evaluate(
        f"""new Promise((resolve, reject) => {{
          const end = performance.now() + {WAIT_MILLISECONDS};
          const look = () => ({expression}) ? resolve() : performance.now() > end
            ? reject(new Error("never came true: " + {json.dumps(expression)})) : setTimeout(look, 10);
          look();
        }})"""
    )


def overflowing(page: Page) -> list[str]:
    """What is wider than the window, or cut in the page's header."""
    found: list[str] = page.evaluate(
        """[
          ...(document.documentElement.scrollWidth > innerWidth ? ["the page"] : []),
          ...[...document.querySelectorAll("header, header *")]
            .filter(e => e.checkVisibility() && e.clientWidth && e.tagName !== "INPUT")
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1
              || (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== "visible"))
            .map(e => `${e.tagName} ${e.id}: ${e.textContent}`),
        ]"""
    )
    return found


def requested_urls(page: Page) -> list[str]:
    """The addresses of all that a page asked for since it was opened last."""
    urls = [request.url for request in page.requests()][::-1]
    own = page.url.partition("#")[0]
    return urls[: urls.index(own) + 1] if own in urls else []


@pytest.fixture(scope="package")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser of all tests here.

    It ends with them: a step that waits takes the thread in which asyncio looks after Playwright's process for one that may run
    steps.
    """
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=chromium_program(), args=FLAGS) as found:
        page = found.new_page()
        page.set_default_timeout(WAIT_MILLISECONDS)
        yield Browser(page, tmp_path_factory.mktemp("pages"))


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser; no page that a test opens may complain or ask a network."""
    with chromium.running():
        yield chromium
        chromium.check()
