"""Checks of every request before the studio sees it, and headers of every answer.

Other pages in the same browser, and other users of this machine, must not reach the studio. Its address has a random token.
Other pages can neither guess the token nor read answers. The checks of Host and Origin also reject requests under other names
of this machine.
"""

from __future__ import annotations

import json
import re
import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import sha256
from typing import Any, NamedTuple

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 32 << 20
"""Maximum bytes of a request: the text of the largest graph file that a browser edits."""
TOKEN_BYTES = 24
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def new_token() -> str:
    """Return a random token for the address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def page_policy(page: str) -> str:
    """Return the Content-Security-Policy of a page, which allows only its own scripts and requests to its own server."""
    digests = (b64encode(sha256(script.encode()).digest()).decode() for script in _SCRIPT.findall(page))
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {scripts} blob:; worker-src blob:; style-src 'unsafe-inline'; img-src data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class _Refused(Exception):  # internal to this module
    """A request that is answered with an HTTP status of 400 or above."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status
        self.problem = problem


class Guard(NamedTuple):
    """An application behind the checks.

    Only requests to `http://HOST/TOKEN/...` reach it, with the token removed from the path.
    """

    application: Application
    token: str
    hosts: tuple[str, ...]

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return

        async def send_safely(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            if scope["type"] != "http":
                raise _Refused(400, "wrong protocol: expected HTTP")
            path = self._check(scope)
            body = await _body(scope, receive) if scope["method"] == "POST" else b""
        except _Refused as refused:
            await _refuse(refused, send_safely)
            return
        await self.application({**scope, "path": path, "raw_path": path.encode()}, _replayed(body, receive), send_safely)

    def _check(self, scope: Scope) -> str:
        """Return the path below the token. Raises _Refused for a request that does not come from the studio's own page."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if host not in self.hosts:
            raise _Refused(421, "wrong Host: the studio answers only at its own address")
        is_post = scope["method"] == "POST"
        if origin != f"http://{host}" if is_post or origin is not None else False:
            raise _Refused(403, "wrong Origin: the studio answers only its own page")
        if headers.get(b"sec-fetch-site", "none") not in ("same-origin", "none"):
            raise _Refused(403, "wrong origin: the studio answers only its own page")
        token, slash, rest = scope["path"].removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.token.encode()) or not slash:
            raise _Refused(404, "no such address: open the address that `placesim studio` printed")
        if is_post and headers.get(b"content-type", "").partition(";")[0].strip() != "application/json":
            raise _Refused(415, "wrong Content-Type: expected application/json")
        return f"/{rest}"


async def _body(scope: Scope, receive: Receive) -> bytes:
    """Return the body of a request. Raises _Refused if it is too large."""
    pieces, size, is_whole = [], 0, False
    while not is_whole:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refused(400, "the request ended early")
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MAX_BODY:
            raise _Refused(413, f"request too large: expected at most {MAX_BODY:,} bytes")
        is_whole = not message.get("more_body", False)
    return b"".join(pieces)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that returns the body that was already read, and then the following messages."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> MutableMapping[str, Any]:
        return waiting.pop() if waiting else await receive()

    return again


async def _refuse(refused: _Refused, send: Send) -> None:
    body = json.dumps({"problem": refused.problem, "help": []}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
