"""The command line in a test's own process; and the demo made tiny: as settings for tests, and as a command line that a
page under test starts in place of the real.

python tests/tiny_hearsay.py demo --out FOLDER
"""

import json
import sys
from typing import Any

SIZES = {"HELD_OUT_ROWS": 30, "COMPLETIONS": 6, "PRIVATE_STEPS": 4}
TINY: dict[str, Any] = {
    "data": {"units": 80, "sentences": 240, "mean_tokens": 26, "cap": 3, "max_tokens": 24},
    "privacy": {"epsilon": 3.0, "delta": 1.0e-6, "corpus": "tiny-air"},
    "adapter": {"rank": 2, "blocks": 1},
    "teachers": {"count": 128, "epochs": 0.5, "rows": 1},  # with this clip the plan calls it feasible
    "ask": {"recipe": "hellinger", "sentences": 6, "questions": 40, "candidates": 16, "tail": 8, "clip": 0.15},
    "student": {"pseudo": 12, "warm_up": 2, "steps": 6, "batch": 4, "caution": 0},
}


def settings() -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(TINY))
    body["data"]["units"] = body["teachers"]["count"]
    return body


def hearsay(*words: object) -> int:
    """The command line in this process; its exit code."""
    from hearsay.cli.main import main  # here: a test may have planted a bug since

    old, sys.argv = sys.argv, ["hearsay", *map(str, words)]
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        sys.argv = old
    return 0


def main() -> None:
    from hearsay.cli.main import main as real

    if sys.argv[1:2] == ["demo"]:
        import torch

        from hearsay import stages
        from hearsay.demo import show

        torch.set_num_threads(1)
        stages.NOTE_EVERY = 0.2
        show.SETTINGS = settings()
        for name, value in SIZES.items():
            setattr(show, name, value)
    real()


if __name__ == "__main__":
    main()
