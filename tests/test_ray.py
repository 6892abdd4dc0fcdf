"""Workers elsewhere: the same integers as in this process, whatever is killed, and nothing private in Ray's files."""

import builtins
import dataclasses
import json
import os
import signal
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from conftest import TEXT
from hearsay import lm as models
from hearsay import run as runs
from hearsay.accounting import verify
from hearsay.accounting.bounds import Bound
from hearsay.accounting.ledger import Ledger
from hearsay.demo.airline import write_corpus
from hearsay.errors import ConfigError, DataError, HearsayError
from hearsay.lm import LanguageModel
from hearsay.private import engine, engines, ray_engine
from hearsay.private.engine import Items, Local, Progress, silent
from hearsay.private.partition import partition
from hearsay.private.ray_engine import Cluster, OnRay
from hearsay.private.shards import PartitionSettings
from hearsay.private.training import TrainingShape
from hearsay.private.workshop import Teaching, Workshop, WorkshopPlan
from hearsay.public.questions import Questions
from hearsay.public.shortlist import Vocabulary
from hearsay.reading import Row
from hearsay.release import updates
from hearsay.release.asking import BlockAnswers, Ensemble, Sum
from hearsay.release.grid import BoundBroken, BoundedSum, joined
from hearsay.release.updates import CrowdPlan
from hearsay.sections import Compute
from test_pipeline import SETTINGS, hearsay

pytestmark = pytest.mark.xdist_group("ray")  # one Ray for all of them

SHAPE = TrainingShape(rank=2, alpha=4.0, row_tokens=24, rows_per_step=2, steps=3, learning_rate=1e-2, warm_up=1)
MOVE = dataclasses.replace(SHAPE, steps=1, warm_up=0, schedule="constant")
TEACHERS, BLOCK = 11, 2


@pytest.fixture(scope="module")  # no longer: other tests fork, and their children would lose Ray's threads
def cluster() -> Iterator[Cluster]:
    found = ray_engine.join(None, 3, gpus=False)
    yield found
    ray_engine.leave(found)
    assert found.folder is not None and not found.folder.exists()


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory, tiny_gpt2: LanguageModel) -> WorkshopPlan:
    folder = tmp_path_factory.mktemp("workshop")
    models.save(tiny_gpt2, folder / "model", "tiny")
    settings = PartitionSettings(TEACHERS, "user", 8, 3, 20, len(tiny_gpt2.tokenizer))
    stream, words = np.random.default_rng(0), TEXT.split()
    rows = [Row(n, " ".join(stream.choice(words, 9)), f"u{n % 23}", ()) for n in range(90)]
    partition(
        rows, settings, key=b"k" * 32, tokenise=lambda texts: models.encode(tiny_gpt2, texts, 20),
        folder=folder / "shards",
    )  # fmt: skip
    return WorkshopPlan(
        str(folder / "model"), torch.float32, "cpu", SHAPE, BLOCK, False, 1, folder / "shards", settings
    )


@pytest.fixture(scope="session")
def shop(plan: WorkshopPlan) -> Workshop:
    return engine.built(plan)


@pytest.fixture(scope="session")
def teaching(shop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Teaching:
    store = shop.stack.store(tmp_path_factory.mktemp("teachers"), count=TEACHERS, generation=1)
    made = Teaching(store, shop.stack.top.layout.initial())
    made(shop, np.arange(store.blocks), silent)
    return made


def _questions() -> Questions:
    stream = torch.Generator().manual_seed(2)
    rows = torch.randint(1, 250, (4, 9), generator=stream)
    asked = torch.tensor([[0, 3], [1, 8], [3, 2]])
    return Questions(
        rows, torch.full((4,), 9), asked, rows[:3, 4], torch.randint(1, 250, (3, 5), generator=stream),
        torch.ones(3, 5, dtype=torch.bool), torch.randint(1, 250, (3, 4), generator=stream), torch.zeros(3, 4),
        torch.zeros(3, dtype=torch.bool),
    )  # fmt: skip


def _on(cluster: Cluster, plan: Any, bench: Any, workers: int = 3) -> OnRay[Any]:
    return OnRay(dataclasses.replace(cluster, workers=workers), plan, bench.signature)


SUMS = [
    Sum(Bound("probability"), "probability"),
    Sum(Bound("root")),
    Sum(Bound("residual", clip=Fraction(1, 20))),
    Sum(Bound("probability"), norms=True),
]


def _asked(which: engine.Engine[Workshop], shop: Workshop, teaching: Teaching, asked: Sum) -> BoundedSum:
    return Ensemble(which, shop.stack, teaching, "run", silent).total(_questions(), asked)


# The same integers


def test_answers_are_the_same_for_any_number_of_workers(
    cluster: Cluster, plan: WorkshopPlan, shop: Workshop, teaching: Teaching
) -> None:
    """seqpate, hellinger, clipped residuals and the votes for a clip, bit for bit on the grid."""
    for asked in SUMS:
        wanted = _asked(Local(shop), shop, teaching, asked)
        assert wanted.total.any() and wanted.total.dtype == torch.int64
        for workers in (1, 2, 3):
            found = _asked(_on(cluster, plan, shop, workers), shop, teaching, asked)
            assert torch.equal(found.total, wanted.total) and found.bound == wanted.bound


def test_teachers_trained_by_workers_are_the_same_files(
    cluster: Cluster, plan: WorkshopPlan, shop: Workshop, teaching: Teaching, tmp_path: Path
) -> None:
    store = dataclasses.replace(teaching.store, folder=tmp_path / "far")
    seen: list[tuple[int, int]] = []
    work = _on(cluster, plan, shop).map(
        Teaching(store, teaching.start), np.arange(store.blocks), lambda done, total: seen.append((done, total))
    )
    assert list(work) == [None] * len(seen) and seen[-1] == (store.blocks, store.blocks)
    for block in range(store.blocks):
        assert store.path(block).read_bytes() == teaching.store.path(block).read_bytes()
    assert len(list(store.folder.iterdir())) == store.blocks


def test_a_block_that_is_not_there_is_trained_again_by_whoever_needs_it(
    cluster: Cluster, plan: WorkshopPlan, shop: Workshop, teaching: Teaching, tmp_path: Path
) -> None:
    empty = Teaching(dataclasses.replace(teaching.store, folder=tmp_path / "lost"), teaching.start)
    wanted = _asked(Local(shop), shop, teaching, SUMS[1]).total
    assert torch.equal(_asked(_on(cluster, plan, shop), shop, empty, SUMS[1]).total, wanted)
    assert not empty.store.missing()


@pytest.fixture(scope="session")
def crowd_plan(plan: WorkshopPlan, tmp_path_factory: pytest.TempPathFactory) -> CrowdPlan:
    folder = tmp_path_factory.mktemp("crowd") / "units"
    return CrowdPlan(plan, MOVE, BLOCK, 2, folder, 23, 0.3, Fraction(1), "run")


def test_updates_are_the_same_for_any_number_of_workers(
    cluster: Cluster, crowd_plan: CrowdPlan, shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With everyone, with a sample, whose coins are thrown once, in this process, with a shortlist, and weighed."""
    crowd = crowd_plan.gather(shop)
    student = shop.stack.top.layout.initial()
    fell = np.arange(len(crowd.units)) % 3 != 1
    thrown: list[int] = []
    monkeypatch.setattr(updates, "coins", lambda rate, count: thrown.append(count) or fell)
    size = shop.stack.top.split.head.shape[0]
    words = Vocabulary(torch.full((size,), 1 / size, dtype=torch.float64), 40, seed=1)
    weights = torch.linspace(0.1, 2.0, crowd.width)
    cases = ((Fraction(1), None, None), (Fraction(2, 3), None, None), (Fraction(1), words, None),
             (Fraction(1), None, weights))  # fmt: skip
    for rate, vocabulary, weighed in cases:
        here = dataclasses.replace(crowd, rate=rate, vocabulary=vocabulary, weights=weighed)
        wanted = here.total(student, 1).total
        assert wanted.any()
        for workers in (1, 2, 3):
            there = dataclasses.replace(here, engine=_on(cluster, crowd_plan, crowd, workers))
            assert torch.equal(there.total(student, 1).total, wanted)
    assert len(thrown) == 4  # once a round with a sample, however many shares and workers


def test_workers_take_the_number_of_threads_that_this_process_has(
    cluster: Cluster, plan: WorkshopPlan, teaching: Teaching
) -> None:
    """Kernels round by how they cut their work between threads."""
    torch.set_num_threads(3)
    try:
        three = dataclasses.replace(plan, threads=3)
        shop = engine.built(three)
        wanted = _asked(Local(shop), shop, teaching, SUMS[0]).total
        assert torch.equal(_asked(_on(cluster, three, shop, 2), shop, teaching, SUMS[0]).total, wanted)
    finally:
        torch.set_num_threads(1)


def test_only_bounded_sums_of_one_kind_are_added() -> None:
    one, other = BoundedSum(Bound("root"), 1, 3), BoundedSum(Bound("probability"), 1, 3)
    with pytest.raises(BoundBroken):
        joined([one, other])
    with pytest.raises(BoundBroken):
        joined([one, BoundedSum(Bound("root"), 1, 4)])
    with pytest.raises(BoundBroken):
        joined([])


# What is lost is computed again


@dataclasses.dataclass(frozen=True)
class Fatal:
    """The task, but the first worker to begin its share dies of it; the marks tell how many began."""

    task: Any
    folder: Path
    node: str = ""  # die only there, with the whole node, when told so

    def __call__(self, bench: Any, items: Items, progress: Progress, /) -> Any:
        import ray

        (self.folder / f"began-{os.getpid()}-{items[0]}-{time.monotonic_ns()}").touch()
        if self.node:
            if ray.get_runtime_context().get_node_id() == self.node:
                (self.folder / "there").touch()
                time.sleep(600)  # until the node is gone
        elif not (self.folder / "killed").exists():
            (self.folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.task(bench, items, progress)


def test_a_killed_worker_costs_a_retry(
    cluster: Cluster, plan: WorkshopPlan, shop: Workshop, teaching: Teaching, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    task, blocks = BlockAnswers(teaching, _questions(), SUMS[2]), np.arange(teaching.store.blocks)
    wanted = task(shop, blocks, silent).total
    found = joined(_on(cluster, plan, shop, 2).map(Fatal(task, tmp_path), blocks, silent)).total
    assert torch.equal(found, wanted)
    began = [path.name.split("-")[2] for path in tmp_path.glob("began-*")]
    assert (tmp_path / "killed").exists() and len(began) == len(set(began)) + 1
    assert capfd.readouterr() == ("", "")  # what is printed may be JSON for a program


def test_a_lost_node_costs_a_retry(cluster: Cluster, crowd_plan: CrowdPlan, shop: Workshop, tmp_path: Path) -> None:
    """A second node joins, takes shares of a sampled round, and is removed while it works."""
    import threading

    node = _add_node(cluster)
    crowd, student = crowd_plan.gather(shop), shop.stack.top.layout.initial()
    members = np.flatnonzero(np.arange(len(crowd.units)) % 3 != 1)
    task = updates.Moving(student, 0)
    wanted = task(crowd, members, silent).total

    done = threading.Event()

    def remove() -> None:
        while not (tmp_path / "there").exists() and not done.is_set():
            time.sleep(0.05)
        node.kill_all_processes(check_alive=False, allow_graceful=False)

    killer = threading.Thread(target=remove)
    killer.start()
    fatal = Fatal(task, tmp_path, node=node.node_id)
    try:
        found = joined(_on(cluster, crowd_plan, crowd, 4).map(fatal, members, silent)).total
    finally:
        done.set()
        killer.join()
    assert torch.equal(found, wanted)
    began = [path.name.split("-")[2] for path in tmp_path.glob("began-*")]
    assert len(began) > len(set(began))


def _add_node(cluster: Cluster) -> Any:
    """Another raylet on this machine: to Ray a machine of its own."""
    from ray._private import worker
    from ray.cluster_utils import Cluster as Nodes

    nodes = Nodes(initialize_head=False)
    head = worker._global_node
    nodes.head_node, nodes.redis_address = head, head.gcs_address
    with ray_engine._our_code():
        return nodes.add_node(num_cpus=1, object_store_memory=100 * 2**20)


# What comes back of a failure


@dataclasses.dataclass(frozen=True)
class Broken:
    kind: type[Exception]

    def __call__(self, bench: Any, items: Items, progress: Progress, /) -> Any:
        raise self.kind("SECRET-WORDS of a private row")


@pytest.mark.parametrize(("kind", "told"), [(ValueError, HearsayError), (DataError, DataError)])
def test_an_exception_comes_back_without_its_text(
    cluster: Cluster, plan: WorkshopPlan, shop: Workshop, kind: type[Exception], told: type[HearsayError]
) -> None:
    for shares in range(3, 23):  # the first to fail ends the call, wherever the others are by then
        with pytest.raises(told) as caught:
            list(_on(cluster, plan, shop).map(Broken(kind), np.arange(shares), silent))
    shown = "".join(map(str, (caught.value, caught.value.__cause__, caught.value.__context__)))
    assert kind.__name__ in shown and "SECRET" not in shown


def test_a_worker_that_computes_otherwise_is_refused_before_it_begins(
    cluster: Cluster, plan: WorkshopPlan, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="other numbers"):
        list(OnRay(cluster, plan, "another").map(Fatal(None, tmp_path), np.arange(2), silent))
    assert not list(tmp_path.iterdir())


def test_a_missing_ray_is_told_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "ray":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install hearsay\[ray\]"), engines.ready(Compute(engine="ray")):
        raise AssertionError("went on")
    with engines.ready(Compute()):
        pass


def test_settings_that_ray_would_not_heed_are_refused(tmp_path: Path) -> None:
    from hearsay.config import Config
    from hearsay.config_augment import AugmentConfig

    with pytest.raises(ValueError, match="belong to engine ray"):
        Compute(workers=2)
    body = json.loads(json.dumps(SETTINGS)) | {"compute": {"engine": "ray"}}
    Config.model_validate(body)
    with pytest.raises(ValueError, match="baselines run in one process"):
        Config.model_validate(body | {"baseline": {"method": "private"}})
    notes = {"private": "p.jsonl", "text": "text", "label": "label", "labels": ["a", "b"], "units": 9, "user": "user"}
    labelled = {"task": "augment", "data": notes, "privacy": {"corpus": "c"}}
    AugmentConfig.model_validate(labelled)
    with pytest.raises(ValueError, match="in one process"):
        AugmentConfig.model_validate(labelled | {"compute": {"engine": "ray"}})


# A whole run


def test_a_run_on_ray_is_the_same_run(
    cluster: Cluster, tmp_path: Path, tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Updates by a sample, then answers: one ledger, verified; begun on Ray, killed and taken up in one process."""
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))
    write_corpus(tmp_path, private_customers=60, public_customers=20, holdout_customers=8, seed=1)
    models.save(tiny_gpt2, tmp_path / "model", "tiny")
    body = json.loads(json.dumps(SETTINGS)) | {"model": str(tmp_path / "model")}
    body["ask"] |= {"recipe": "mixed", "rounds": 1, "clip": "quantile"}
    body["updates"] = {"rounds": 2, "rows": 1, "sample": 0.5, "share": 0.5}
    body["compute"] |= {"engine": "ray", "workers": 2}
    (tmp_path / "hearsay.yaml").write_text(yaml.safe_dump(body))
    out = tmp_path / "run"
    assert hearsay("run", tmp_path / "hearsay.yaml", "--out", out, "--anyway", "--json") == 0
    capsys.readouterr()
    code, said = hearsay("ledger", "verify", out, "--json"), capsys.readouterr()
    assert code == 0, said
    assert json.loads(said.out)["charges"] == 4
    ledger = Ledger.open(runs.open_run(out).ledger)
    assert verify.verify(ledger).ok
    student = load_file(out / "release" / "stages" / "student-0.safetensors")["value"]
    # The same command on the other engine finds everything done, and charges nothing.
    body["compute"] = {"device": "cpu", "block": 5}
    (tmp_path / "hearsay.yaml").write_text(yaml.safe_dump(body))
    assert hearsay("run", tmp_path / "hearsay.yaml", "--out", out, "--anyway", "--json") == 0
    assert len(ledger.charges()) == 4
    assert torch.equal(load_file(out / "release" / "stages" / "student-0.safetensors")["value"], student)
    _no_private_text(cluster, tmp_path / "private.jsonl")


def _no_private_text(cluster: Cluster, private: Path) -> None:
    """Every file of Ray's, after everything above: no private sentence, no exception's text, nobody else let in."""
    assert cluster.folder is not None and cluster.folder.stat().st_mode & 0o777 == 0o700
    rows = [json.loads(line) for line in private.read_text().splitlines()]
    needles = [b"SECRET-WORDS", *(row["text"][:40].encode() for row in rows), *(row["user"].encode() for row in rows)]
    files = [path for path in cluster.folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".err" for path in files)
    for path in files:
        content = path.read_bytes()
        assert not any(needle in content for needle in needles), path.name
    assert not list(cluster.folder.rglob("*spilled*/*"))
