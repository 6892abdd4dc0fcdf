"""A small server that speaks the chat-completions protocol over a local model: for trying out the endpoint backend.

    python -m hearsay.demo.endpoint --model embedded --port 8000

One request at a time reaches the model. It is meant for this machine alone: no key, no limits, 127.0.0.1 only.
"""

import argparse
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

from hearsay import lm as models
from hearsay.lm import LanguageModel

Trouble = Callable[[int], str | None]  # number of a request -> what goes wrong with it, for tests
MOST = 1 << 20  # bytes of a request


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, lm: LanguageModel, port: int = 0, trouble: Trouble | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.lm, self.trouble = lm, trouble
        self.turn = threading.Lock()
        self.asked = 0
        self.released = threading.Event()  # what a hanging request waits for

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = str(body["messages"][-1]["content"])
        with self.turn:
            stream = torch.Generator().manual_seed(self.asked)
            rows = models.encode(self.lm, [prompt], 400)
            limit = int(body.get("max_tokens", 64))
            temperature, top_p = float(body.get("temperature", 1)), float(body.get("top_p", 1))
            made = models.generate(
                self.lm, rows, max_tokens=limit, temperature=temperature, top_p=top_p, generator=stream
            )
        return _answer(self.lm, str(body.get("model")), len(rows[0]), made[0], limit)


def _answer(lm: LanguageModel, model: str, asked: int, made: list[int], limit: int) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": models.decode(lm, [made])[0]},
        "finish_reason": "length" if len(made) >= limit else "stop",
    }
    used = {"prompt_tokens": asked, "completion_tokens": len(made), "total_tokens": asked + len(made)}
    return {
        "id": "local",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
        "usage": used,
    }


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        with self.server.turn:
            number = self.server.asked
            self.server.asked += 1
        content = self.rfile.read(min(MOST, int(self.headers.get("Content-Length", 0))))
        if not self.path.endswith("/chat/completions"):
            return self._send(404, b'{"error": {"message": "only chat/completions is served"}}')
        wrong = self.server.trouble(number) if self.server.trouble else None
        if wrong is not None:
            return self._fail(wrong)
        try:
            body = json.dumps(self.server.complete(json.loads(content)))
        except (ValueError, KeyError, IndexError, TypeError):
            return self._send(400, b'{"error": {"message": "the request is not of the protocol"}}')
        return self._send(200, body.encode())

    def _fail(self, wrong: str) -> None:
        if wrong == "hang":
            self.server.released.wait()
        elif wrong.isdigit():
            self._send(int(wrong), b'{"error": {"message": "as asked"}}')
        elif wrong == "truncated":
            self._send(200, b'{"id": "local", "choices": [{"mess', length=400)
        elif wrong == "malformed":
            self._send(200, b"this is no JSON")
        else:
            self._send(200, wrong.encode())

    def _send(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)
        if length:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded", help="embedded, a folder or a hub id")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    server = Server(models.load(given.model, device="cpu"), given.port)
    print(f"serving {given.model} at {server.url}; Ctrl-C stops it", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
