"""The studio's application: routes to the answers, the stream of events, and the end when the page is closed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from placesim.cli.studio.guard import page_policy
from placesim.core.errors import PlacesimError, UsageError
from placesim.core.process.deadlines import run_within
from placesim.core.releases import CURRENT, RELEASES
from placesim.report.pictures.studio_page import studio_page
from placesim.studies.studio.language import language
from placesim.studies.studio.messages import Refusal, State
from placesim.studies.studio.plan_process import PlanSearch, read_search
from placesim.studies.studio.plan_search import PlanEvent
from placesim.studies.studio.saving import save_state
from placesim.studies.studio.source import read_state
from placesim.studies.studio.start import start_document
from placesim.studies.studio.studio import Studio

GRACE_SECONDS = 4.0
"""Seconds without a page after which the server ends. A reloaded page opens its stream in less time."""
PING_SECONDS = 1.0
"""Interval of the comments in the stream of events, which show that a page has gone."""


class Superseded(PlacesimError):
    """Raised in a question that a later question of the same kind replaces."""


class StudioServer:
    """The application of one studio. `end` is called when no page has been open for `GRACE_SECONDS`."""

    def __init__(self, studio: Studio, end: Callable[[], object] = bool) -> None:
        self._studio = studio
        self._end = end
        self._pages: list[asyncio.Queue[str]] = []
        self._closing: asyncio.TimerHandle | None = None
        self._measures: dict[str, object] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._search = PlanSearch(studio.source, self._tell_plan)
        self.application = Starlette(
            routes=[
                Route("/", self._open, methods=["GET"]),
                Route("/language", self._language, methods=["GET"]),
                Route("/events", self._events, methods=["GET"]),
                *(
                    Route(f"/{route}", partial(_answered, ask), methods=["POST"])
                    for route, ask in {
                        "answer": self._answer,
                        "measure": self._measure,
                        "explain": self._explain,
                        "save": self._save,
                        "plan": self._plan,
                        "plan/stop": self._stop_plan,
                    }.items()
                ),
            ]
        )

    def close(self) -> None:
        """End the search for a plan, if one is running."""
        self._search.close()

    # --- questions

    async def _open(self, request: Request) -> Response:
        if self._closing is not None:
            self._closing.cancel()
        page = await run_in_threadpool(lambda: studio_page(start_document(self._studio)))
        if self._closing is not None and not self._pages:  # a reload, whose stream is still to come
            self._end_later()
        return HTMLResponse(page, headers={"Content-Security-Policy": page_policy(page)})

    async def _language(self, request: Request) -> Response:
        release = request.query_params.get("release", CURRENT.name)
        if release not in RELEASES:
            return _refusal(400, f"unknown release: got '{release}', expected one of {', '.join(RELEASES)}")
        return _json(await run_in_threadpool(language, release))

    def _answer(self, question: dict[str, Any]) -> Mapping[str, Any]:
        return self._studio.answer(*_asked(question))

    def _measure(self, question: dict[str, Any]) -> Mapping[str, Any]:
        page, own = str(question.get("page")), object()
        self._measures[page] = own

        def check() -> None:
            if self._measures.get(page) is not own:
                raise Superseded("a later question of the same page made this one needless")

        try:
            return run_within(None, lambda: self._studio.measure(*_asked(question)), check)
        finally:
            if self._measures.get(page) is own:
                del self._measures[page]

    def _explain(self, question: dict[str, Any]) -> Mapping[str, Any]:
        number, state, _ = _asked(question)
        return self._studio.explain(number, state, str(question.get("node", "")))

    def _save(self, question: dict[str, Any]) -> Mapping[str, Any]:
        number, state, baseline = _asked(question)
        return save_state(
            self._studio,
            number,
            state,
            str(question.get("kind")),
            lambda: studio_page(start_document(self._studio, state, baseline, is_live=False)),
            is_written=question.get("is_written") is True,
            overwrites=question.get("overwrites") is True,
        )

    def _plan(self, question: dict[str, Any]) -> Mapping[str, Any]:
        number, state, _ = _asked(question)
        self._search.start(state, read_search(question.get("search")))
        return {"id": number}

    def _stop_plan(self, question: dict[str, Any]) -> Mapping[str, Any]:
        self._search.stop()
        return {"id": question.get("id")}

    def _tell_plan(self, event: PlanEvent) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._send, event.name, event.data)

    # --- events

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        """Yield events while a page is open. When the last page closes, the server starts to end."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._pages.append(queue)
        if self._closing is not None:
            self._closing.cancel()
        try:
            yield "retry: 500\n\n"
            while True:
                try:
                    yield await asyncio.wait_for(queue.get(), PING_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._pages.remove(queue)
            if not self._pages:
                self._end_later()

    def _end_later(self) -> None:
        self._closing = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end)

    def _send(self, event: str, data: Mapping[str, Any]) -> None:
        for queue in self._pages:
            queue.put_nowait(f"event: {event}\ndata: {json.dumps(data)}\n\n")


def _asked(question: dict[str, Any]) -> tuple[int, State, State | None]:
    """Return the number, the state and the baseline of a question. Raises UsageError for an invalid question."""
    number, baseline = question.get("id"), question.get("baseline")
    if not isinstance(number, int):
        raise UsageError("wrong id of a question: expected a number")
    return number, read_state(question.get("state")), None if baseline is None else read_state(baseline)


async def _answered(ask: Callable[[dict[str, Any]], Mapping[str, Any]], request: Request) -> Response:
    """Compute the answer to a question in a thread, and return it. Errors and bugs become answers with a text."""
    try:
        question = await request.json()
    except (ValueError, RecursionError):
        question = None
    if not isinstance(question, dict):
        return _refusal(400, "wrong question: expected a JSON object")
    try:
        return _json(await run_in_threadpool(ask, question))
    except Superseded as error:
        return _refusal(409, error.message)
    except PlacesimError as error:
        return _refusal(400, error.message, error.help)
    except Exception as error:  # a defect ends neither the server nor the page
        return _refusal(500, f"a bug in placesim: {type(error).__name__}: {error}")


def _json(document: Any, status: int = 200) -> Response:
    return Response(json.dumps(document), status, media_type="application/json")


def _refusal(status: int, problem: str, lines: Sequence[str] = ()) -> Response:
    return _json(Refusal(problem=problem, help=list(lines)), status)
