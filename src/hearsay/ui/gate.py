"""Who may talk to the page: a browser on this machine that was given its address.

Every address begins with a random token, so another program or a web page open in the same browser cannot guess one.
Host and Origin are checked as well: a foreign name that resolves to 127.0.0.1, or a foreign page, is refused even with
the token. Answers allow no script, style or request from anywhere else.
"""

import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
DRAWN_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox"
HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
MOST_BYTES = 1 << 20  # of a request: a config is a few thousand
SIZE = re.compile(r"[0-9]{1,9}")


def new_token() -> str:
    return secrets.token_urlsafe(24)


class Gate:
    """Wraps the app: checks every request, takes the token off the path, and puts the headers on every answer."""

    def __init__(self, app: App, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        reason = "only http" if scope["type"] != "http" else self.refusal(scope)
        if reason:
            return await _refuse(send, reason)
        inner = {**scope, "path": scope["path"][len(self.token) + 1 :] or "/", "root_path": ""}
        return await self.app(inner, receive, _with_headers(send))

    def refusal(self, scope: MutableMapping[str, Any]) -> str | None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        first = scope["path"].split("/")[1] if "/" in scope["path"] else ""
        if headers.get("host", "") not in self.hosts:
            return "this page answers to 127.0.0.1 only"
        if not hmac.compare_digest(first.encode(), self.token.encode()):
            return "the address lacks its token; open the one that `hearsay ui` printed"
        if "origin" in headers and headers["origin"] not in {f"http://{host}" for host in self.hosts}:
            return "a request from another page"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "a request from another page"
        length = headers.get("content-length", "0")
        if not SIZE.fullmatch(length) or int(length) > MOST_BYTES:
            return "more than a config"
        if "transfer-encoding" in headers:  # a body in chunks, whose length nobody told
            return "a request without its length"
        return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.decode().lower() for name, _ in message["headers"]}
            extra = {"Content-Security-Policy": PAGE_POLICY, **HEADERS}
            message["headers"] = [
                *message["headers"],
                *((name.encode(), value.encode()) for name, value in extra.items() if name.lower() not in given),
            ]
        await send(message)

    return sending


async def _refuse(send: Send, reason: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-security-policy", b"default-src 'none'")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": f"refused: {reason}\n".encode()})
