"""What goes out with a synthetic corpus: its texts as parquet and jsonl, the card, and the statement."""

import json
from pathlib import Path
from typing import Any, Literal

from hearsay import __version__
from hearsay.accounting import statement
from hearsay.accounting.ledger import Ledger
from hearsay.config_augment import AugmentConfig
from hearsay.disk import drafting, write_text
from hearsay.origins import origins
from hearsay.public.cards import render, told
from hearsay.public.generator import Candidate
from hearsay.public.selection import Chosen
from hearsay.public.space import Floats
from hearsay.run import Run, forget_time

FOLDER = "synthetic"


def release_corpus(
    run: Run, ledger: Ledger, config: AugmentConfig, candidates: list[Candidate], chosen: Chosen, shares: Floats
) -> None:
    folder = run.release / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    rows = corpus_rows(config, candidates, chosen)
    said = statement.make(ledger)
    facts = _facts(said, config, chosen, shares) | {"run": run.id}
    _write_parquet(rows, run)
    write_text(folder / "corpus.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    write_text(folder / "README.md", render("corpus_card.md.j2", facts))
    write_text(folder / "facts.json", json.dumps({key: facts[key] for key in ("labels", "short", "how", "copies")}))
    write_text(run.release / "statement.json", json.dumps(said.to_json(), indent=1))
    write_text(run.release / "statement.html", render("statement.html.j2", facts, html=True))
    for path in run.release.rglob("*"):
        forget_time(path)


def corpus_rows(config: AugmentConfig, candidates: list[Candidate], chosen: Chosen) -> list[dict[str, Any]]:
    labels = config.data.labels
    found = zip(chosen.places.tolist(), chosen.labels.tolist(), chosen.scores.tolist(), strict=True)
    return [
        {
            "text": candidates[place].text,
            "label": labels[label],
            "asked_for": candidates[place].label,
            "score": round(score, 4),
        }
        for place, label, score in found
    ]


def _write_parquet(rows: list[dict[str, Any]], run: Run) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with drafting(run.release / FOLDER / "corpus.parquet") as draft:
        pq.write_table(pa.Table.from_pylist(rows), draft)


def _facts(said: statement.Statement, config: AugmentConfig, chosen: Chosen, shares: Floats) -> dict[str, Any]:
    """Public settings, released shares and figures from the ledger: all that a card may hold."""
    labels = config.data.labels
    counts = [int((chosen.labels == i).sum()) for i in range(len(labels))]
    return {
        "statement": said.to_json(),
        "version": __version__,
        "texts": len(chosen.places),
        "relabel": config.selection.relabel,
        "labels": [
            {"label": label, "texts": count, "share": float(share)}
            for label, count, share in zip(labels, counts, shares, strict=True)
        ],
        "short": [f"{labels[label]} ({missing} fewer)" for label, missing in chosen.short.items()],
        "copies": chosen.copies,
        "how": how(config),
        "writer": writer(config),
    }


def writer(config: AugmentConfig) -> Literal["owner", "student", "public"]:
    """Who wrote the texts, which decides what may be said of them. A student may be named by its folder, too."""
    settings = config.generator
    if settings.backend == "file":
        return "owner"
    return "student" if settings.backend == "student" or any(origins(Path(settings.model))) else "public"


def how(config: AugmentConfig) -> str:
    generator, method = config.generator, config.discriminator
    wrote = "texts from a file" if generator.backend == "file" else f"{generator.backend} model {told(generator.model)}"
    asked = {
        "means": f"one release of sums by label in {method.dimensions} directions",
        "gradients": f"{method.steps} noisy gradients in {method.dimensions} directions",
        "clusters": f"one histogram over {method.clusters} cells",
        "votes": f"{method.queries} votes of {method.teachers} teachers",
    }[method.method]
    tutor = "a noisy histogram of labels" if config.tutor.use else "even shares of labels"
    return f"{wrote}; {asked}; {tutor}; encoder {told(method.encoder)}"
