"""What `init` writes and `doctor` looks at."""

import importlib.util
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hearsay.config import Config, commented_yaml, load, load_as, task_of
from hearsay.config_augment import AugmentConfig
from hearsay.dimensions import missing_folder
from hearsay.disk import write_text
from hearsay.errors import BadInput, ConfigError, HearsayError
from hearsay.run import installed

EXAMPLE: dict[str, Any] = {
    "data": {"private": ["private.jsonl"], "public": ["public.jsonl"], "units": 5000, "sentences": 60000},
    "privacy": {"corpus": "my-corpus"},
    "teachers": {"count": 500},
}
EXAMPLE_AUGMENT: dict[str, Any] = {
    "data": {"private": ["private.jsonl"], "labels": ["cardiology", "neurology"], "units": 2000},
    "privacy": {"corpus": "my-notes", "unit": "record"},
}


@dataclass(frozen=True)
class Check:
    what: str
    ok: bool
    found: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def write_config(folder: Path, task: str, data: dict[str, Any] | None = None, corpus: str | None = None) -> Path:
    """`data` and `corpus` are what is known already, files as named from here."""
    if task not in ("generate", "augment"):
        raise ConfigError(f"--task is {task!r}; need generate or augment")
    example, kind = (EXAMPLE, Config) if task == "generate" else (EXAMPLE_AUGMENT, AugmentConfig)
    known = {name: _seen_from(folder, value) for name, value in (data or {}).items() if value}
    if "user" in known and task == "generate":
        known["public_user"] = known["user"]
    if other := known.keys() - (kind.model_fields["data"].annotation or Config).model_fields:
        raise BadInput(f"--{min(other)} does not go with --task {task}; leave it out")
    named = {"corpus": corpus} if corpus else {}
    values = {**example, "data": example["data"] | known, "privacy": example["privacy"] | named}
    text, path = commented_yaml(values, kind), folder / "hearsay.yaml"
    if path.exists():
        raise BadInput(f"{path} exists already; edit it, or name another folder")
    existed = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except OSError as error:
        if not existed and folder.is_dir():
            folder.rmdir()
        raise BadInput(f"cannot write {path}: {error.strerror}; name another folder") from error
    return path


def _seen_from(folder: Path, value: Any) -> Any:
    """Files by their way from the config, which is how a config names them."""
    return [os.path.relpath(path, folder) for path in value] if isinstance(value, list) else value


def checks(config_path: Path | None) -> list[Check]:
    found = [_python(), _package("torch"), _package("transformers"), _package("dp-accounting"), _machine(), _home()]
    if config_path is None:
        return found
    try:
        labelled = task_of(config_path) == "augment"
        config = load_as(AugmentConfig, config_path) if labelled else load(config_path)
    except HearsayError as error:
        return [*found, Check("config", False, str(error))]
    return [*found, Check("config", True, str(config_path)), *_config_checks(config)]


def _python() -> Check:
    return Check("Python", sys.version_info >= (3, 11), f"{sys.version.split()[0]} (need 3.11 or later)")


def _package(name: str, source: str = "") -> Check:
    version = installed(name)
    return Check(name, version is not None, version or f"missing; type: pip install {source or name}")


def _machine() -> Check:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    device = "cpu"
    if importlib.util.find_spec("torch"):
        import torch

        device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu"
    return Check("machine", True, f"{os.cpu_count()} cores, {memory:.0f} GiB, device {device}")


def _home() -> Check:
    from hearsay.accounting.identity import home

    folder = home()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free / 2**30
    writable = existing.is_dir() and _takes_files(existing)
    return Check("ledgers", writable, f"{folder} {'writable' if writable else 'NOT writable'}, {free:.0f} GiB free")


def _takes_files(folder: Path) -> bool:
    """Tried, not asked: root may write anywhere but where nothing can be written."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _model(name: str) -> Check:
    """A folder is looked into; what has to be fetched from the hub is fetched by a run, not by this."""
    if name == "embedded":
        return Check("model", True, "embedded")
    folder = Path(name)
    if folder.is_dir():
        good = (folder / "config.json").is_file()
        return Check("model", good, name if good else f"{name} has no config.json; name a folder with a saved model")
    if fault := missing_folder(name):
        return Check("model", False, fault)
    return Check("model", True, f"{name}, from the hub or its cache: not looked at before the run")


def _config_checks(config: Config | AugmentConfig) -> list[Check]:
    from hearsay.reading import check_schema

    found = [] if isinstance(config, AugmentConfig) else [_model(config.model)]
    for name, paths, columns in labelled_inputs(config) if isinstance(config, AugmentConfig) else inputs(config):
        found.append(_try(name, lambda paths=paths, columns=columns: check_schema(paths, columns)))
    if config.compute.engine == "ray":
        found.append(_package("ray", "'hearsay[ray]'"))
    return [*found, _plan(config), *_ledger(config)]


def inputs(config: Config) -> list[tuple[str, list[Path], Any]]:
    """(name, files, columns) of all that a config reads."""
    from hearsay.reading import Columns

    data, by_user = config.data, config.privacy.unit == "user"
    found = [
        ("private data", data.private, Columns(text=data.text, user=data.user if by_user else None)),
        ("public data", data.public, Columns(text=data.public_column, user=data.public_user if by_user else None)),
    ]
    return [*found, ("hold-out data", data.holdout, Columns(text=data.text))] if data.holdout else found


def labelled_inputs(config: AugmentConfig) -> list[tuple[str, list[Path], Any]]:
    """The same for a labelled corpus."""
    from hearsay.reading import Columns

    data, by_user = config.data, config.privacy.unit == "user"
    columns = Columns(text=data.text, label=data.label, user=data.user if by_user else None)
    found = [("private data", data.private, columns)]
    if data.holdout:
        found.append(("hold-out data", data.holdout, Columns(text=data.text, label=data.label)))
    if config.generator.files:
        found.append(("candidates", config.generator.files, Columns(text="text", label="label")))
    return found


def _plan(config: Config | AugmentConfig) -> Check:
    from hearsay.accounting import plan, plan_augment

    made: plan.Plan | plan_augment.Plan
    try:
        if isinstance(config, AugmentConfig):
            made = plan_augment.make(config.plan_request())
        else:
            made = plan.make(config.plan_request())
    except HearsayError as error:
        return Check("plan", False, str(error))
    own = None if isinstance(config, AugmentConfig) else config.baseline
    if own is not None:  # whatever is expected of it, it is carried out: references are there to be compared with
        return Check("plan", True, f"baseline {own.method}: {made.why if own.noisy else 'costs nothing of the budget'}")
    return Check("plan", made.feasible, made.why)


def _ledger(config: Config | AugmentConfig) -> list[Check]:
    """If the corpus has one: whether it would take one more run."""
    from hearsay import admission

    left, refused = admission.left(config)
    if left is None:
        return []
    return [Check("ledger", refused is None, refused or f"{left:.1%} of this corpus's budget is left")]


def _try(what: str, check: Any) -> Check:
    try:
        return Check(what, True, str(check() or "columns found"))
    except HearsayError as error:
        return Check(what, False, str(error))
