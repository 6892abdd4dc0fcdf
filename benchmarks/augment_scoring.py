"""How long scoring and selecting take once candidates are encoded: 50,000 of them, as the second method does it.

    PYTHONPATH=src python benchmarks/augment_scoring.py [--out benchmarks/results/augment_scoring.json]

Vectors are random with label structure: the arithmetic does not depend on what they say. Nothing private is needed:
the noisy sums are made up, since scoring is post-processing.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from hearsay.public import scoring
from hearsay.public import space as spaces
from hearsay.public.selection import select, tempered
from hearsay.run import environment

CANDIDATES, WIDTH, LABELS, UNITS, TEXTS = 50_000, 384, 39, 2000, 5000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/augment_scoring.json"))
    given = parser.parse_args()
    chance = np.random.default_rng(0)
    asked = np.arange(CANDIDATES) % LABELS
    vectors = (chance.normal(size=(CANDIDATES, WIDTH)) + 2 * chance.normal(size=(LABELS, WIDTH))[asked]).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    shares = chance.dirichlet(np.ones(LABELS))
    seconds = {}
    began, busy = time.monotonic(), time.process_time()
    space = spaces.fit(vectors, asked, 48)
    seconds["directions"] = time.monotonic() - began
    began = time.monotonic()
    places = space.places(vectors)
    sums = chance.normal(size=(LABELS, 48)) * 4
    scores = scoring.from_means(sums, 4.0, shares, UNITS, places, asked).scores(places)
    seconds["scores"] = time.monotonic() - began
    began = time.monotonic()
    chosen = select(scores, asked, vectors, tempered(shares, 0.5), texts=TEXTS, relabel=True, near_copy=0.98, seed=0)
    seconds["selection"] = time.monotonic() - began
    found = {
        "candidates": CANDIDATES, "width": WIDTH, "labels": LABELS, "selected": len(chosen.places),
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "seconds_total": round(sum(seconds.values()), 2), "seconds_cpu": round(time.process_time() - busy, 2),
        "threads": int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)), "environment": environment(),
    }  # fmt: skip
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({key: found[key] for key in ("seconds", "seconds_total", "seconds_cpu", "threads")}))


if __name__ == "__main__":
    main()
