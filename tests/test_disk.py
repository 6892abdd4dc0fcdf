import os
import stat
from pathlib import Path

import pytest

from hearsay.disk import drafting, write_text


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "older")
    with pytest.raises(KeyboardInterrupt), drafting(path) as draft:
        draft.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "older"
    write_text(path, "newer")
    assert path.read_text() == "newer" and list(tmp_path.iterdir()) == [path]


def test_a_private_file_is_private_from_its_first_moment_on(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with drafting(tmp_path / "a", mode=0o600) as draft:
            assert stat.S_IMODE(draft.stat().st_mode) == 0o600
        write_text(tmp_path / "b", "")
    finally:
        os.umask(old)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [0o600, 0o666]


def test_content_and_name_are_on_the_disk_before_anybody_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(path: Path) -> None:
        seen.append((path.suffix, path.is_dir(), (tmp_path / "a").exists()))

    monkeypatch.setattr("hearsay.disk.sync", watched)
    write_text(tmp_path / "a", "text")
    assert seen == [(".draft", False, False), ("", True, True)]
