"""Which runs a file or folder comes from: what a run made carries that run's cost, under whatever name it is given.

A place is looked at as it is named, after each link on its way, and so is all that links inside it lead to: a student
that was moved to another disk, with a link left in its stead, is still the student. Copies are not recognised.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hearsay.errors import BadInput
from hearsay.run import Run, open_run

LINKS = 40  # one after another, as many as Linux follows
MOST = 100_000  # entries of folders that links lead to: more are no model


@dataclass(frozen=True)
class Origin:
    run: Run
    place: Path  # as it reads where it lies in the run's directory
    released: bool


def origins(place: Path) -> Iterator[Origin]:
    """Every run in whose directory it lies, however deep, on whatever way to it."""
    for here in _everywhere(place):
        for folder in (here, *here.parents):
            with contextlib.suppress(BadInput, OSError):  # another program's run.json, or a folder that is shut to us
                if (folder / "run.json").is_file():
                    yield Origin(open_run(folder), here, here.relative_to(folder).parts[:1] == ("release",))


def _everywhere(place: Path) -> list[Path]:
    found = dict.fromkeys(_hops(place))
    waiting, looked = list(found), 0
    while waiting:
        for path in waiting.pop().rglob("*"):
            looked += 1
            if looked > MOST:
                raise BadInput(f"{place} leads to more than {MOST:,} files; name the folder of the model alone")
            new = [hop for hop in _hops(path) if hop not in found] if _is_link(path) else []
            found |= dict.fromkeys(new)
            waiting += new
    return list(found)


def _hops(path: Path) -> Iterator[Path]:
    """The path as it is named, as it reads after each link on it, and at last as it is."""
    real, rest, left = Path(path.absolute().anchor), list(path.absolute().parts[1:]), LINKS
    while rest:
        part = rest.pop(0)
        if part == "..":
            real = real.parent
        elif left and _is_link(real / part):
            if ".." not in rest:
                yield Path(real, part, *rest)
            target, left = (real / part).readlink(), left - 1
            real = Path(target.anchor) if target.is_absolute() else real
            rest = [*target.relative_to(target.anchor).parts, *rest]
        else:
            real = real / part
    yield real


def _is_link(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.is_symlink()
    return False
