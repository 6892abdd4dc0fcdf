"""The page's server: one FastAPI app behind the gate, on 127.0.0.1 only.

    hearsay ui --runs runs          # prints an address with a random token; Ctrl-C ends it

FastAPI and uvicorn are small, pure Python and imported only by this verb. FastAPI's documentation pages stay off, since
they load scripts from a network; so does its telemetry, which an environment variable could otherwise switch on.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, cast

import uvicorn
from fastapi import Body, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from hearsay.cli.setup import EXAMPLE
from hearsay.config import commented_yaml
from hearsay.errors import BadInput, HearsayError
from hearsay.report import page
from hearsay.ui import books, gate, planner, shelf
from hearsay.ui.playground import Playground, Prompt
from hearsay.ui.work import COMMAND, Workshop

PORT = 8765
TRIED = 50  # ports, from the wished one on
LOOK_EVERY = 1.0  # seconds between two looks at the files, while a browser listens
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
OWN = ("page.css", "page.js", "dom.js", "runs.js", "planner.js", "reading.js", "icon.svg")
SHARED = ("colours.css", "document.css")
QUIET = dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)
RunName = Annotated[str, Query(max_length=300)]
InBody = Annotated[str, Body(embed=True, max_length=300)]


@dataclass
class Desk:
    """What the requests share."""

    workshop: Workshop
    playground: Playground = field(default_factory=Playground)
    ending: Callable[[], bool] = lambda: False  # true once the page is asked to end: open streams must let go

    @property
    def shelf(self) -> shelf.Shelf:
        return self.workshop.shelf


def make_app(desk: Desk) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, telemetry=cast(Any, QUIET))
    _errors(app)
    _files(app)
    _runs(app, desk)
    _plans(app)
    _reading(app, desk)
    return app


def _errors(app: FastAPI) -> None:
    @app.exception_handler(HearsayError)
    def _known(_: Request, error: HearsayError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=400)

    @app.exception_handler(RequestValidationError)
    def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        said = "; ".join(f"{item['loc'][-1]}: {item['msg']}" for item in error.errors())
        return JSONResponse({"error": said}, status_code=400)

    @app.exception_handler(Exception)
    def _unknown(_: Request, error: Exception) -> JSONResponse:
        name = type(error).__name__  # not its message: libraries quote what they read
        return JSONResponse({"error": f"unexpected: {name}; see the terminal"}, status_code=500)


def _files(app: FastAPI) -> None:
    @app.get("/")
    def _index() -> HTMLResponse:
        return HTMLResponse(_static("index.html"))

    @app.get("/static/{name}")
    def _file(name: str) -> Response:
        if name in SHARED:
            return Response(page.static(name), media_type="text/css")
        if name not in OWN:
            raise BadInput(f"no file {name!r} on this page")
        return Response(_static(name), media_type=KINDS[Path(name).suffix])


def _runs(app: FastAPI, desk: Desk) -> None:
    shop = desk.workshop

    @app.get("/api/runs")
    def _list() -> dict[str, Any]:
        return {"runs": [one.to_json() for one in shop.runs()]}

    @app.get("/api/events")
    def _events() -> StreamingResponse:
        return StreamingResponse(_changes(desk), media_type="text/event-stream")

    @app.get("/api/stages")
    def _stages(run: RunName) -> dict[str, Any]:
        return {"stages": shelf.stages(desk.shelf.run(run).folder)}

    @app.get("/api/example")
    def _example() -> dict[str, str]:
        return {"config": commented_yaml(EXAMPLE)}

    @app.post("/api/demo")
    def _demo(name: InBody, seed: Annotated[int, Body(ge=0, le=10**6)] = 0) -> dict[str, str]:
        return {"run": shop.demo(name, seed)}

    @app.post("/api/run")
    def _run(name: InBody, config: Annotated[str, Body()], anyway: Annotated[bool, Body()] = False) -> dict[str, str]:
        return {"run": shop.from_config(name, config, anyway=anyway)}

    @app.post("/api/resume")
    def _resume(run: InBody) -> dict[str, str]:
        return {"run": shop.resume(run)}

    @app.post("/api/stop")
    def _stop(run: InBody) -> dict[str, str]:
        shop.stop(run)
        return {"run": run}


async def _changes(desk: Desk) -> AsyncIterator[str]:
    """The list of runs whenever it differs from the last one sent; a comment now and then shows that we live."""
    last, silent = "", 0
    while not desk.ending():
        found = json.dumps({"runs": [one.to_json() for one in await run_in_threadpool(desk.workshop.runs)]})
        if found != last:
            yield f"data: {found}\n\n"
        elif silent % 15 == 14:
            yield ": here\n\n"
        last, silent = found, silent + 1
        await asyncio.sleep(LOOK_EVERY)


def _plans(app: FastAPI) -> None:
    @app.get("/api/recipes")
    def _recipes() -> dict[str, Any]:
        return {"recipes": planner.recipes()}

    @app.get("/api/plan")
    def _plan(choice: Annotated[planner.Choice, Query()]) -> dict[str, Any]:
        return planner.answer(choice)

    @app.get("/plan.svg")
    def _picture(choice: Annotated[planner.Choice, Query()]) -> Response:
        return _drawn(planner.picture(choice))


def _reading(app: FastAPI, desk: Desk) -> None:
    @app.post("/api/complete")
    def _complete(run: InBody, prompt: Annotated[Prompt, Body()]) -> dict[str, Any]:
        return desk.playground.complete(desk.shelf.run(run), prompt)

    @app.get("/api/ledger")
    def _ledger(run: RunName) -> dict[str, Any]:
        return books.show(desk.shelf.run(run))

    @app.get("/budget.svg")
    def _budget(run: RunName) -> Response:
        return _drawn(books.picture(desk.shelf.run(run)))

    @app.post("/api/verify")
    def _verify(run: InBody) -> dict[str, Any]:
        return books.verify(desk.shelf.run(run), desk.workshop.command)

    @app.get("/report")
    def _report(run: RunName, shareable: bool = False) -> HTMLResponse:
        text = page.html(desk.shelf.run(run), shareable=shareable)
        return HTMLResponse(text, headers={"Content-Security-Policy": gate.DRAWN_POLICY})


def _drawn(text: str) -> Response:
    policy = {"Content-Security-Policy": gate.DRAWN_POLICY}
    return Response(text, media_type="image/svg+xml", headers=policy, status_code=200 if text else 404)


def _static(name: str) -> str:
    return (resources.files("hearsay") / "ui" / "static" / name).read_text(encoding="utf-8")


def bind(wished: int) -> socket.socket:
    """The wished port, or the next free one: a second page does not disturb the first."""
    for port in range(wished, min(wished + TRIED, 65536)) if wished else [0]:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a page that just ended leaves its port
            found.bind(("127.0.0.1", port))
            found.listen(128)
        except OSError:
            found.close()
        else:
            return found
    raise BadInput(f"no free port from {wished} on; name another with --port, or 0 for any")


class Page:
    """A page that is ready to be served: its address is known before it answers."""

    def __init__(
        self, runs: Path, *, port: int = PORT, data: Sequence[Path] = (), command: Sequence[str] = COMMAND
    ) -> None:
        self.socket, token = bind(port), gate.new_token()
        self.port = int(self.socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/{token}/"
        desk = Desk(Workshop(shelf.Shelf(runs), data, command))
        app = gate.Gate(make_app(desk), token, self.port)
        # No access log: it would write the token.
        settings = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
        self.server = uvicorn.Server(settings)
        desk.ending = lambda: self.server.should_exit

    def serve(self) -> None:
        self.server.run(sockets=[self.socket])
