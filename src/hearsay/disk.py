"""What must outlive a power cut is forced to the disk: a file by its handle, its name by its folder."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def sync(path: Path) -> None:
    """A file's content, or a folder's list of names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def drafting(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """A draft to write; it takes its place when the block ends, whole or not at all, and stays there.

    A block that fails leaves the older file. With a mode of 0600 nobody else may read it, from its first moment on.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode))
        yield draft
        sync(draft)
        draft.replace(path)
        sync(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str, mode: int = 0o666) -> None:
    with drafting(path, mode) as draft:
        draft.write_text(text, encoding="utf-8")
