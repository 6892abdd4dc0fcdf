"""The page as a program meets it: who is refused, what is told about runs, and that paths stay inside."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from conftest import TinyDemo
from hearsay import stages
from hearsay.accounting import plan
from hearsay.cli.main import app
from hearsay.errors import BadInput
from hearsay.run import begin, open_run, worker
from hearsay.sections import Ask
from hearsay.ui import planner
from hearsay.ui.server import Page
from hearsay.ui.shelf import Shelf
from hearsay.ui.work import Workshop

SRC = Path(__file__).parents[1] / "src"
HOLD = """
import sys, time
from pathlib import Path
from hearsay.run import open_run
run = open_run(Path(sys.argv[1]))
with run.alone():
    run.note("teachers 1", event="begin")
    run.note("teachers 1", event="progress", done=3, total=12)
    print("holding", flush=True)
    time.sleep(600)
"""


class Client:
    """Plain HTTP, so that a test can lie in every header."""

    def __init__(self, page: Page) -> None:
        self.page, self.token = page, page.url.split("/")[3]

    def ask(self, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> tuple[int, Any]:
        call = http.client.HTTPConnection("127.0.0.1", self.page.port, timeout=60)
        prefix = f"/{self.token if token is None else token}"
        method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        call.request(method, f"{prefix}/{path}", sent, {"Content-Type": "application/json", **given})
        answer = call.getresponse()
        text = answer.read().decode()
        call.close()
        self.headers = answer.headers
        return answer.status, json.loads(text) if answer.headers.get_content_type() == "application/json" else text


def serve(runs: Path, **options: Any) -> Iterator[Client]:
    page = Page(runs, port=0, **options)
    thread = threading.Thread(target=page.serve, daemon=True)
    thread.start()
    yield Client(page)
    page.server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture()
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture()
def client(runs: Path) -> Iterator[Client]:
    yield from serve(runs)


def _run(runs: Path, name: str) -> Path:
    config = {"privacy": {"epsilon": 3.0, "corpus": "chats"}, "ask": {"recipe": "hellinger"}}
    return begin(runs / name, yaml.safe_dump(config), runs.parent / "ledger.sqlite", runs.parent / "home").folder


# --- who may talk to it ---------------------------------------------------------------------------------------------


def test_it_answers_to_its_own_address(client: Client) -> None:
    status, text = client.ask("")
    assert status == 200 and "<title>hearsay</title>" in text
    policy = client.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert client.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("", {}),
        ("x" * 32, {}),
        (None, {"Host": "evil.example"}),
        (None, {"Host": "127.0.0.1:1"}),
        (None, {"Origin": "http://evil.example"}),
        (None, {"Origin": "null"}),
        (None, {"Sec_Fetch_Site": "cross-site"}),
    ],
)
def test_it_refuses_strangers(client: Client, token: str | None, headers: dict[str, str]) -> None:
    for path, body in (("api/runs", None), ("api/demo", {"name": "demo"})):
        status, text = client.ask(path, body, token=token, **headers)
        assert status == 403 and "refused" in text


def test_the_framework_reports_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI can send traces of requests, bodies included, to wherever the environment says. Not from here."""
    from opentelemetry import metrics, trace

    asked = []
    for module, name in ((trace, "get_tracer_provider"), (metrics, "get_meter_provider")):
        monkeypatch.setattr(module, name, lambda name=name: asked.append(name))
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    assert client.ask("api/runs")[0] == 200 and client.ask("api/nothing")[0] == 404
    assert asked == []


def test_its_own_origin_is_let_in(client: Client) -> None:
    assert client.ask("api/runs", Origin=client.page.url.rsplit("/", 2)[0])[0] == 200


def test_a_huge_request_is_refused(client: Client) -> None:
    assert client.ask("api/run", {"name": "a", "config": "x" * 2_000_000})[0] == 403


@pytest.mark.parametrize("path", ["../secret", "/etc", "..", "", "a/../../secret", "link", "a\0b"])
def test_paths_stay_in_the_runs_folder(client: Client, runs: Path, path: str) -> None:
    _run(runs.parent, "secret")
    (runs / "link").symlink_to(runs.parent / "secret")
    for call in ("api/ledger", "api/stages", "report", "budget.svg"):
        status, body = client.ask(f"{call}?{urlencode({'run': path})}")
        assert status == 400 and ("runs folder" in body["error"] or "not a run" in body["error"])
    for call in ("api/stop", "api/resume", "api/verify"):
        assert client.ask(call, {"run": path})[0] == 400
    assert [run["path"] for run in client.ask("api/runs")[1]["runs"]] == []


def test_static_files_are_a_fixed_list(client: Client) -> None:
    assert client.ask("static/page.js")[0] == client.ask("static/document.css")[0] == 200
    for name in ("server.py", "..%2f__init__.py", "index.html.j2", "%2e%2e%2fserver.py"):
        assert client.ask(f"static/{name}")[0] in (400, 404)


def test_a_second_page_takes_another_port(runs: Path) -> None:
    first = Page(runs, port=0)
    second = Page(runs, port=first.port)
    assert second.port != first.port and second.url != first.url
    first.socket.close()
    second.socket.close()


# --- what it tells --------------------------------------------------------------------------------------------------


def test_a_run_killed_from_outside_shows_as_stopped(client: Client, runs: Path) -> None:
    folder = _run(runs, "mine")
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    held = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, env=environment)
    assert held.stdout is not None and held.stdout.readline() == b"holding\n"
    (shown,) = client.ask("api/runs")[1]["runs"]
    assert (shown["state"], shown["stage"], shown["done"], shown["total"]) == ("running", "teachers 1", 3, 12)
    assert worker(folder) == held.pid
    held.kill()
    held.wait()
    (shown,) = client.ask("api/runs")[1]["runs"]
    assert (shown["state"], shown["corpus"], shown["recipe"]) == ("stopped", "chats", "hellinger")


def test_stop_is_ctrl_c(client: Client, runs: Path) -> None:
    folder = _run(runs, "mine")
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    held = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=environment)  # fmt: skip
    assert held.stdout is not None and held.stdout.readline()
    assert client.ask("api/stop", {"run": "mine"})[0] == 200
    assert held.wait(timeout=30) == -signal.SIGINT
    assert client.ask("api/stop", {"run": "mine"})[0] == 400


def test_a_lock_that_names_a_living_stranger_is_not_taken_for_a_run(runs: Path) -> None:
    folder = _run(runs, "mine")
    (folder / ".lock").write_text(str(os.getpid()))
    assert worker(folder) is None
    assert Shelf(runs).show(folder).state == "stopped"


def test_progress_within_a_stage_reaches_those_who_look_from_elsewhere(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _run(runs, "mine")
    monkeypatch.setattr(stages, "NOTE_EVERY", -1.0)
    with stages.Stages(open_run(folder), stages.Watch).start("teachers 1") as progress:
        progress(2, 5)
        shown = Shelf(runs).show(folder)
    assert (shown.stage, shown.done, shown.total) == ("teachers 1", 2, 5)


def test_a_half_written_line_of_progress_is_not_read(runs: Path) -> None:
    folder = _run(runs, "mine")
    (folder / "progress.jsonl").write_text('{"time": 1, "stage": "model", "event": "begin"}\n{"time": 2, "sta')
    assert Shelf(runs).show(folder).stage == "model"


def test_changes_are_sent_as_they_happen(client: Client, runs: Path) -> None:
    call = http.client.HTTPConnection("127.0.0.1", client.page.port, timeout=30)
    call.request("GET", f"/{client.token}/api/events")
    answer = call.getresponse()
    assert json.loads(answer.readline().removeprefix(b"data: ")) == {"runs": []}
    answer.readline()
    _run(runs, "mine")
    assert json.loads(answer.readline().removeprefix(b"data: "))["runs"][0]["name"] == "mine"
    call.close()


# --- starting -------------------------------------------------------------------------------------------------------


def _config(folder: Path, **data: Any) -> str:
    body: dict[str, Any] = {
        "data": {"private": "private.jsonl", "public": "public.jsonl", "units": 5000, "sentences": 60000, **data},
        "privacy": {"corpus": "chats"},
        "teachers": {"count": 500},
    }
    return yaml.safe_dump(body)


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"private": "/etc/passwd"}},
        {"data": {"public": "../elsewhere.jsonl"}},
        {"data": {"holdout": ["inside.jsonl", "link.jsonl"]}},
        {"privacy": {"secrets": "/srv/secrets.txt"}},
        {"model": "/srv/model"},
        {"model": "../model"},
    ],
)
def test_a_config_that_names_a_file_outside_is_refused(client: Client, runs: Path, change: dict[str, Any]) -> None:
    (runs / "link.jsonl").symlink_to("/etc/passwd")
    body = yaml.safe_load(_config(runs))
    for key, value in change.items():
        body[key] = body[key] | value if isinstance(value, dict) else value
    status, found = client.ask("api/run", {"name": "mine", "config": yaml.safe_dump(body)})
    assert status == 400 and "outside the runs folder" in found["error"] and "--data" in found["error"]
    assert {path.name for path in runs.iterdir()} == {"link.jsonl"}


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "-rf", ".hidden", "x" * 65, "a b"])
def test_a_name_that_is_no_name_is_refused(client: Client, runs: Path, name: str) -> None:
    assert client.ask("api/demo", {"name": name})[0] == 400
    assert list(runs.iterdir()) == []


def test_a_wrong_config_is_explained(client: Client) -> None:
    status, found = client.ask("api/run", {"name": "mine", "config": "data: {privat: x}"})
    assert status == 400 and "did you mean private" in found["error"]


def _recorder(folder: Path) -> list[str]:
    """A command line that notes its words, and fails as ours does."""
    script = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(' '.join(sys.argv[2:])); "
    script += "sys.exit(print('warning: x\\nerror: no such column', file=sys.stderr) or 2)"
    return [sys.executable, "-c", script, str(folder / "words.txt")]


def test_a_run_is_started_by_the_command_line_and_its_failure_is_told(runs: Path) -> None:
    """Files in a folder that the owner named may be used; why it failed is shown, and stands in no file."""
    data = runs.parent / "data"
    data.mkdir()
    shop = Workshop(Shelf(runs), [data], _recorder(runs.parent))
    shop.from_config("mine", _config(runs, private=str(data / "private.jsonl")), anyway=True)
    shop.jobs["mine"].process.wait(timeout=30)
    words = (runs.parent / "words.txt").read_text()
    assert words == f"run {runs / 'mine.yaml'} --out {runs / 'mine'} --anyway"
    (shown,) = shop.runs()
    assert (shown.state, shown.fault) == ("failed", "error: no such column")
    assert [path.name for path in runs.rglob("*")] == ["mine.yaml"]
    shop.from_config("mine", _config(runs), anyway=False)  # mended, and the same name again
    shop.jobs["mine"].process.wait(timeout=30)
    (runs / "theirs.yaml").write_text("not ours")
    with pytest.raises(BadInput, match="exists already"):
        shop.from_config("theirs", _config(runs), anyway=False)


def test_a_stopped_run_is_taken_up_with_its_own_settings_and_ledger(runs: Path) -> None:
    folder = _run(runs, "mine")
    shop = Workshop(Shelf(runs), [], _recorder(runs.parent))
    shop.resume("mine")
    shop.jobs["mine"].process.wait(timeout=30)
    expected = f"run {folder / 'config.yaml'} --out {folder} --ledger {runs.parent / 'ledger.sqlite'}"
    assert (runs.parent / "words.txt").read_text() == expected


# --- planner --------------------------------------------------------------------------------------------------------


def test_the_planner_says_what_the_plan_says(client: Client) -> None:
    status, found = client.ask("api/plan?" + urlencode({"epsilon": 3, "teachers": 500, "questions": 6000}))
    assert status == 200 and found["feasible"] and found["odds"] == "62.7"
    assert found["effective_tokens"] == pytest.approx(13111, rel=1e-3)
    status, found = client.ask("api/plan?" + urlencode({"teachers": 9000, "units": 100}))
    assert status == 200 and not found["feasible"] and "at most one teacher per unit" in found["why"]
    assert client.ask("api/plan?epsilon=-1")[0] == 400
    assert client.ask("api/plan?epsilon=nan")[0] == 400
    status, drawn = client.ask("plan.svg?teachers=500")
    assert status == 200 and "effective tokens" in drawn


def test_recipes_are_those_of_the_config() -> None:
    names = [one["name"] for one in planner.recipes()]
    assert "hellinger" in names and "seqpate" in names
    for name in names:  # each of them can be planned, with rounds
        assert "why" in planner.answer(planner.Choice(recipe=name, rounds=3)), name
    assert Ask.model_fields["recipe"].default in names


@pytest.mark.parametrize(
    "choice", [{"recipe": "updates", "rounds": 20}, {"recipe": "seqpate"}, {"epsilon": 1, "teachers": 700}]
)
def test_the_command_beside_a_plan_gives_that_plan(choice: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    shown = planner.answer(planner.Choice(**choice))
    command = shown["command"].split()
    assert command[:2] == ["hearsay", "plan"]
    app([*command[1:], "--json"], standalone_mode=False)
    typed = json.loads(capsys.readouterr().out)
    assert all(typed[name] == shown[name] for name in plan.Plan.__dataclass_fields__ if name != "warnings")


# --- a finished run -------------------------------------------------------------------------------------------------


@pytest.mark.xdist_group("demo")
def test_a_finished_run_is_listed_read_verified_and_reported(tiny_demo: TinyDemo, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SRC))
        for client in serve(tiny_demo.folder.parent):
            (shown,) = client.ask("api/runs")[1]["runs"]
            assert (shown["path"], shown["name"], shown["state"]) == ("demo/run", "demo", "finished")
            status, book = client.ask("api/ledger?run=demo/run")
            assert status == 200 and book["epsilon"] == 3 and book["charges"][0]["purpose"] == "answers, round 1"
            assert "share of the" in client.ask("budget.svg?run=demo/run")[1]
            status, verdict = client.ask("api/verify", {"run": "demo/run"})
            assert status == 200 and verdict["ok"] and verdict["chain"] == "intact"
            assert "for the owner" in client.ask("report?run=demo/run")[1]
            assert "sandbox" in client.headers["Content-Security-Policy"]
            assert "may be shared" in client.ask("report?run=demo/run&shareable=true")[1]


@pytest.mark.xdist_group("demo")
def test_a_changed_answer_fails_the_verification(tiny_demo: TinyDemo, tmp_path: Path) -> None:
    """The page's verify is the command line's: it looks at the released answers, not only at the ledger."""
    shutil.copytree(tiny_demo.folder, tmp_path / "demo")
    (answer,) = (tmp_path / "demo" / "run" / "release" / "answers").iterdir()
    answer.write_bytes(answer.read_bytes()[:-1] + b"\1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SRC))
        for client in serve(tmp_path):
            status, verdict = client.ask("api/verify", {"run": "demo/run"})
    assert status == 200 and not verdict["ok"] and verdict["problems"]


def test_the_page_loads_no_torch_until_a_model_is_asked_for() -> None:
    code = "import sys; import hearsay.ui.server; print('torch' in sys.modules, 'hearsay.private' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SRC)}, capture_output=True,
                          text=True)  # fmt: skip
    assert done.stdout.strip() == "False False", done.stderr


LINGER = """
import sys, time
from pathlib import Path
place = Path(sys.argv[1])
try:
    (place / "ready").touch()
    time.sleep(600)
except KeyboardInterrupt:
    (place / "caught").touch()
    while not (place / "go").exists():
        time.sleep(0.05)
    sys.exit(130)
"""


def _await(path: Path) -> None:
    while not path.exists():
        time.sleep(0.02)


def test_a_process_that_is_not_gone_yet_is_not_called_stopped(runs: Path, tmp_path: Path) -> None:
    """Before and after its work a process holds no lock. While it lives, the page says so and offers no second one."""
    folder = _run(runs, "mine")
    shop = Workshop(Shelf(runs), [], [sys.executable, "-c", LINGER, str(tmp_path)])
    shop.resume("mine")
    _await(tmp_path / "ready")
    assert [(one.state, one.stage) for one in shop.runs()] == [("starting", "")]
    shop.stop("mine")
    _await(tmp_path / "caught")
    assert [(one.state, one.stage) for one in shop.runs()] == [("running", "stopping")]
    with pytest.raises(BadInput, match="is running"):
        shop.resume("mine")
    (tmp_path / "go").touch()
    shop.jobs["mine"].process.wait(timeout=60)
    assert shop.runs() == [Shelf(runs).show(folder)] and shop.runs()[0].state == "stopped"
