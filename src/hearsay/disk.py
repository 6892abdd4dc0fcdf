"""What must outlive a power cut is forced to the disk: a file by its handle, its name by its folder."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """A file's content, or a folder's list of names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def settle(draft: Path, path: Path) -> None:
    """A finished draft takes its place, whole or not at all, and stays there."""
    sync(draft)
    draft.replace(path)
    sync(path.parent)
