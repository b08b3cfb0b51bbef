"""`placesim studio`: its command, its routes, and one by one what its server refuses."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from placesim.cli.studio import guard, server
from placesim.cli.studio.guard import Guard, new_token, page_policy
from placesim.cli.studio.server import StudioServer
from placesim.studies.studio.source import StudioSource
from placesim.studies.studio.studio import Studio
from tests.cli.shell import ROOT, Shell
from tests.cli.warm import start_warm

TOWERS = str(ROOT / "graphs/towers.yaml")
HOST, TOKEN = "127.0.0.1:1234", "secret"
STATE = {"text": "nodes:\n- {op: Const, name: a, value: 1}\nfetch: a\n", "options": {}, "devices": []}


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Site:
    """The guarded application of a studio, called without a socket."""

    def __init__(self, studio: Studio, end: Callable[[], object] = bool) -> None:
        self.server = StudioServer(studio, end)
        self._guard = Guard(self.server.application, TOKEN, (HOST,))

    def ask(self, path: str, question: Any = None, *, method: str | None = None, **headers: str) -> Reply:
        return asyncio.run(self.reply(path, question, method, headers))

    async def reply(self, path: str, question: Any, method: str | None, headers: dict[str, str]) -> Reply:
        body = b"" if question is None else question if isinstance(question, bytes) else json.dumps(question).encode()
        given = {"host": HOST}
        if question is not None:
            given |= {"origin": f"http://{HOST}", "content-type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        scope = {
            "type": "http",
            "method": method or ("GET" if question is None else "POST"),
            "path": path.partition("?")[0],
            "query_string": path.partition("?")[2].encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items() if value],
            "root_path": "",
            "scheme": "http",
            "server": ("127.0.0.1", 1234),
            "client": None,
            "http_version": "1.1",
        }
        sent: list[MutableMapping[str, Any]] = []
        pieces = [body[:10], body[10:]]

        async def receive() -> dict[str, Any]:
            if not pieces:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._guard.answer(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Reply(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]).decode())


@pytest.fixture(scope="module")
def site() -> Site:
    return Site(Studio(StudioSource(TOWERS, {})))


def test_each_route_answers(site: Site) -> None:
    page = site.ask("/secret/")
    assert page.status == 200
    assert 'id="packed-data"' in page.body
    for name, value in {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-frame-options": "DENY"}.items():
        assert page.headers[name] == value
    answer = site.ask("/secret/answer", {"id": 3, "state": STATE, "baseline": STATE}).document
    assert (answer["id"], answer["picture"]["nodes"]["name"], answer["changes"]["moved"]) == (3, ["a"], [])
    assert site.ask("/secret/measure", {"id": 4, "state": STATE}).document["now"]["step"]["seconds"] > 0
    assert site.ask("/secret/explain", {"id": 5, "state": STATE, "node": "a"}).document["summary"] == "the preferred device"
    assert site.ask("/secret/save", {"id": 6, "state": STATE, "kind": "options"}).document["content"] == "\n"
    shared = site.ask("/secret/save", {"id": 7, "state": STATE, "kind": "page"}).document
    assert "connect-src" not in shared["content"]  # it asks nobody
    assert len(site.ask("/secret/language?release=1.15").document["ops"]) > 1000
    assert site.ask("/secret/language?release=3").status == 400


def test_a_page_runs_only_its_own_scripts(site: Site) -> None:
    page = site.ask("/secret/")
    policy = page.headers["content-security-policy"]
    assert policy == page_policy(page.body)
    directives = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["connect-src"] == "'self'"
    assert "unsafe" not in directives["script-src"]
    assert directives["script-src"].count("sha256-") == len(re.findall(r"<script>", page.body))


def test_what_is_not_from_the_page_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    question = {"id": 1, "state": STATE}
    refused: dict[int, tuple[Callable[[], Reply], ...]] = {
        404: (
            lambda: site.ask("/"),
            lambda: site.ask("/wrong/"),
            lambda: site.ask("/secret"),
            lambda: site.ask("/secre/answer", question),
            lambda: site.ask("//secret/"),
            lambda: site.ask("/secret/../graphs/towers.yaml"),
            lambda: site.ask("/secret/etc/passwd"),
        ),
        421: (lambda: site.ask("/secret/", host="evil.example"), lambda: site.ask("/secret/", host="")),
        403: (
            lambda: site.ask("/secret/answer", question, origin="http://evil.example"),
            lambda: site.ask("/secret/answer", question, origin="null"),
            lambda: site.ask("/secret/answer", question, origin=""),
            lambda: site.ask("/secret/events", origin="http://evil.example"),
            lambda: site.ask("/secret/", sec_fetch_site="cross-site"),
        ),
        415: (lambda: site.ask("/secret/answer", question, content_type="text/plain"),),
        405: (lambda: site.ask("/secret/answer"), lambda: site.ask("/secret/", method="DELETE")),
        400: (
            lambda: site.ask("/secret/answer", b"{"),
            lambda: site.ask("/secret/answer", b"[" * 100_000),
            lambda: site.ask("/secret/answer", [1]),
            lambda: site.ask("/secret/answer", {"id": "x", "state": STATE}),
            lambda: site.ask("/secret/answer", {"id": 1, "state": {}}),
            lambda: site.ask("/secret/save", question | {"kind": "../../x", "is_written": True}),
            lambda: site.ask("/secret/plan", question | {"search": {}}),
        ),
    }
    for status, attempts in refused.items():
        for number, attempt in enumerate(attempts):
            assert (number, attempt().status) == (number, status)
    monkeypatch.setattr(guard, "MAX_BODY", 100)
    assert site.ask("/secret/answer", {"id": 1, "state": {**STATE, "text": "x" * 200}}).status == 413


def test_tokens_are_random() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 32


def test_a_defect_is_an_answer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("so far")

    monkeypatch.setattr(Studio, "explain", fail)
    found = site.ask("/secret/explain", {"id": 1, "state": STATE, "node": "a"})
    assert (found.status, found.document["problem"]) == (500, "a bug in placesim: ZeroDivisionError: so far")


def test_a_later_measure_ends_an_earlier_one(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    began, release = threading.Event(), threading.Event()

    def measure(number: int, *_: Any) -> dict[str, Any]:
        if number == 1:
            began.set()
            while not release.wait(0.01):
                pass
        return {"id": number}

    monkeypatch.setattr(site.server._studio, "measure", measure)
    found: list[Reply] = []
    first = threading.Thread(target=lambda: found.append(site.ask("/secret/measure", {"id": 1, "state": STATE})))
    first.start()
    assert began.wait(10)
    assert site.ask("/secret/measure", {"id": 3, "page": "another tab", "state": STATE}).document == {"id": 3}
    assert first.is_alive()
    assert site.ask("/secret/measure", {"id": 2, "state": STATE}).document == {"id": 2}
    first.join(10)
    release.set()
    assert [reply.status for reply in found] == [409]


def test_the_studio_ends_after_its_last_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(server, "PING_SECONDS", 0.01)

    async def visit() -> list[bool]:
        ended: list[bool] = []
        site = Site(Studio(StudioSource(TOWERS, {})), lambda: ended.append(True))
        states = []
        streams: list[AsyncIterator[str]] = [site.server._stream() for _ in range(3)]
        for stream in streams[:2]:
            await anext(stream)
        await streams[0].aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
        states.append(bool(ended))  # one page is open
        await streams[1].aclose()  # type: ignore[attr-defined]
        await site.reply("/secret/", None, None, {})  # a reload, which may take longer than the grace
        await anext(streams[2])
        await asyncio.sleep(0.1)
        states.append(bool(ended))
        site.server._send("plan-best", {"value": 1})
        assert await anext(streams[2]) == 'event: plan-best\ndata: {"value": 1}\n\n'
        await streams[2].aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
        return [*states, bool(ended)]

    assert asyncio.run(visit()) == [False, False, True]


def test_bad_commands_say_what_is_wrong(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    name = shell.write("graph.yaml", "nodes: []\n")
    assert shell("studio", "nosuch.yaml").complaint.startswith("GraphFileError: nosuch.yaml: cannot read the graph file")
    assert "port" in shell("studio", name, "--port", "99999").complaint
    assert shell("studio", name, "--gpu", "-1").code == 2
    assert "unknown GPU model: got 'nope'" in shell("studio", name, "--gpu-model", "nope").complaint
    empty = shell("studio", shell.write("empty.onnx", ""))
    assert (empty.code, empty.output) == (2, "")
    assert "empty.onnx: not a graph: got an empty file, expected an ONNX model" in empty.complaint
    for module in ("placesim.cli.studio.running", "uvicorn"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    told = shell("studio", name)
    assert (told.code, told.complaint) == (
        2,
        "UsageError: uvicorn is not installed: the studio needs it, `pip install 'placesim[studio]'`\n",
    )


@pytest.fixture
def served() -> Iterator[tuple[HTTPConnection, str, Any]]:
    """A studio in a process of its own: a connection to it, its path, and the process."""
    with start_warm("studio", TOWERS, "--no-browser") as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        match = re.fullmatch(r"http://(127\.0\.0\.1:\d+)(/[\w-]+/)", address)
        assert match is not None
        connection = HTTPConnection(match[1], timeout=30)
        yield connection, match[2], process
        connection.close()


@pytest.mark.slow(3)
def test_the_command_serves_its_page_until_it_is_closed(served: tuple[HTTPConnection, str, Any], shell: Shell) -> None:
    connection, path, process = served
    connection.request("GET", path)
    page = connection.getresponse()
    assert page.status == 200
    assert b"packed-data" in page.read()
    in_use = shell("studio", TOWERS, "--port", str(connection.port), "--no-browser")
    assert (in_use.code, in_use.complaint.partition(":")[0]) == (2, "UsageError")
    connection.request("GET", f"{path}events")
    events = connection.getresponse()
    assert events.readline() == b"retry: 500\n"
    connection.close()
    events.close()
    assert process.wait(30) == 0


def test_the_folder_of_the_graph_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text(str(STATE["text"]), "utf-8")
    site = Site(Studio(StudioSource(str(tmp_path / "graph.yaml"), {})))
    for kind in ("yaml", "pb", "page", "script", "options"):
        assert site.ask("/secret/save", {"id": 1, "state": STATE, "kind": kind}).status == 200
    assert [path.name for path in tmp_path.iterdir()] == ["graph.yaml"]
