"""The endpoint backend against a real HTTP server that speaks the protocol over a tiny model and fails on demand."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hearsay.config_augment import Endpoint as Settings
from hearsay.config_augment import Generator
from hearsay.demo.endpoint import Server
from hearsay.errors import ModelError
from hearsay.lm import LanguageModel
from hearsay.public.endpoint import Endpoint, Pace, _whole
from hearsay.public.generator import Request

pytest.importorskip("openai")
ASKED = [Request("a", f"please write number {i}", "") for i in range(5)]
Make = Callable[..., Server]


@pytest.fixture
def serve(tiny_gpt2: LanguageModel) -> Iterator[Make]:
    running: list[Server] = []

    def start(trouble: Callable[[int], str | None] | None = None) -> Server:
        server = Server(tiny_gpt2, 0, trouble)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.released.set()
        server.shutdown()
        server.server_close()


def settings(url: str, **endpoint: object) -> tuple[Generator, Settings]:
    at = {"base_url": url, "pause": 0.0, "concurrency": 1, "timeout": 20, "retries": 2, **endpoint}
    writer = Generator.model_validate({"backend": "endpoint", "model": "tiny", "tokens": 6})
    return writer, Settings.model_validate(at)


def write(folder: Path, server: Server, **endpoint: object) -> list[str]:
    return Endpoint(*settings(server.url, **endpoint), folder).write(ASKED, lambda done, total: None)


def test_answers_come_in_order_and_a_rerun_asks_nothing(serve: Make, tmp_path: Path) -> None:
    server = serve()
    first = write(tmp_path, server, concurrency=3)
    assert len(first) == 5
    assert all(first)
    assert server.asked == 5
    assert write(tmp_path, server) == first
    assert server.asked == 5


@pytest.mark.parametrize("wrong", ["429", "500", "malformed", "truncated", '{"choices": []}', "{}"])
def test_trouble_that_passes_is_waited_out(serve: Make, tmp_path: Path, wrong: str) -> None:
    server = serve(lambda number: wrong if number in (1, 2) else None)
    pauses: list[float] = []
    endpoint = Endpoint(*settings(server.url, pause=0.5), tmp_path, sleep=pauses.append)
    assert len(endpoint.write(ASKED, lambda done, total: None)) == 5
    assert server.asked == 7
    assert pauses == [0.5, 1.0], "pauses grow"


def test_a_time_out_is_tried_again(serve: Make, tmp_path: Path) -> None:
    server = serve(lambda number: "hang" if number == 0 else None)
    assert len(write(tmp_path, server, timeout=1.0)) == 5


def test_a_server_that_goes_down_loses_nothing_and_the_rerun_continues(serve: Make, tmp_path: Path) -> None:
    server = serve(lambda number: "503" if number >= 2 else None)
    with pytest.raises(ModelError, match=r"3 tries \(last: status 503\).*continues.*2 of 5 texts are here"):
        write(tmp_path, server)
    server.trouble = None
    asked = server.asked
    assert len(write(tmp_path, server)) == 5
    assert server.asked == asked + 3


def test_no_server_at_all_is_told(serve: Make, tmp_path: Path) -> None:
    server = serve()
    url = server.url
    server.shutdown()
    server.server_close()
    with pytest.raises(ModelError, match=r"did not give an answer.*no connection"):
        Endpoint(*settings(url), tmp_path).write(ASKED, lambda done, total: None)


def test_a_refusal_is_not_tried_again(serve: Make, tmp_path: Path) -> None:
    server = serve(lambda number: "401")
    with pytest.raises(ModelError, match=r"refused: status 401.*OPENAI_API_KEY"):
        write(tmp_path, server)
    assert server.asked == 1


def test_the_cost_limit_stops_before_it_is_passed(serve: Make, tmp_path: Path) -> None:
    server = serve()
    priced = {"price_out": 1e6, "most_cost": 16.0}  # 1 a token; 6 tokens an answer, 12 are spent after two
    with pytest.raises(ModelError, match=r"most_cost \(16\).*2 of 5"):
        write(tmp_path, server, **priced)
    assert server.asked == 2
    assert len(write(tmp_path, server)) == 5, "without the limit the rerun pays for three"
    assert server.asked == 5


def test_a_half_written_line_is_not_an_answer(serve: Make, tmp_path: Path) -> None:
    server = serve()
    write(tmp_path, server)
    path = next(tmp_path.glob("responses-*.jsonl"))
    path.write_text(path.read_text()[:-20])
    assert len(write(tmp_path, server)) == 5
    assert server.asked == 6
    write(tmp_path, server)
    assert server.asked == 6


def test_pace_spaces_requests_evenly() -> None:
    slept: list[float] = []
    pace = Pace(30, slept.append, lambda: 100.0)
    for _ in range(3):
        pace.wait()
    assert slept == [0.0, 2.0, 4.0]


def test_a_cut_answer_ends_at_its_last_sentence() -> None:
    assert _whole("One. Two! And thr") == "One. Two!"
    assert _whole("no end at all") == "no end at all"
