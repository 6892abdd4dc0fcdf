"""Plants a bug in a copy of one module's source and runs a named check on it, in a forked child.

The child forgets every hearsay and test module, so that the mutant and all that imports it are imported afresh while
torch and its kin, which take seconds, are not. What the child does never comes back but for pytest's exit code.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Plant:
    """One line of one module, changed. `check` is the test or audit that must notice."""

    name: str
    module: str
    old: str
    new: str
    check: str


class _Mutant(SourceFileLoader):
    def __init__(self, name: str, path: str, plant: Plant) -> None:
        super().__init__(name, path)
        self._plant = plant

    def get_code(self, fullname: str) -> CodeType:
        return compile(mutated(self._plant, Path(self.path).read_text()), self.path, "exec", dont_inherit=True)


class _Finder:
    """Stands before the usual finders and answers for one module only."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._plant.module:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None and spec.origin is not None
        spec.loader = _Mutant(name, spec.origin, self._plant)
        return spec


def mutated(plant: Plant, source: str) -> str:
    """A plant that fits nowhere, or twice, tests nothing: the code has moved on, and so must the table."""
    found = source.count(plant.old)
    assert found == 1, f"{plant.name}: {plant.old!r} stands {found} times in {plant.module}, need once"
    assert "\n" not in plant.old and "\n" not in plant.new
    return source.replace(plant.old, plant.new)


def run_checks(checks: Sequence[str], plant: Plant | None = None) -> int:
    """pytest's exit code: 0 where all checks pass, 1 where one fails, others where they did not run."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = _in_child(checks, plant)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _in_child(checks: Sequence[str], plant: Plant | None) -> int:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.chdir(ROOT)
    for name in [n for n in sys.modules if n.split(".")[0] == "hearsay" or n.startswith(("test_", "conftest"))]:
        del sys.modules[name]
    if plant is not None:
        sys.meta_path.insert(0, _Finder(plant))  # type: ignore[arg-type]
        importlib.import_module(plant.module)
    for variable in [v for v in os.environ if v.startswith("PYTEST_")]:
        del os.environ[variable]
    without = ("no:xdist", "no:cacheprovider", "no:faulthandler")  # the watchdog of hangs is a thread, lost in a fork
    return int(pytest.main([*checks, "-x", "--no-header", *(word for name in without for word in ("-p", name))]))
