"""`hearsay demo --task augment`: the second method on simulated patients and the embedded model, on a laptop.

Its ledger and its secret live in its own directory, since nobody real is protected by them.
"""

import json
from pathlib import Path
from typing import Any

from hearsay import augmenting, measure_augment
from hearsay import config as configs
from hearsay import run as runs
from hearsay.accounting import identity
from hearsay.config_augment import AugmentConfig
from hearsay.demo.clinic import LABELS, ClinicFiles, files_in, write_corpus
from hearsay.demo.clinic_words import SPECIALTIES
from hearsay.disk import write_text
from hearsay.stages import Watch

HELD_OUT = 400  # patients
SETTINGS: dict[str, Any] = {
    "data": {"label": "labels", "separator": "|", "user": "patient", "labels": list(LABELS), "units": 1500, "cap": 4},
    "privacy": {"epsilon": 1.0, "delta": 1.0e-6, "unit": "user", "corpus": "st-brendan"},
    "generator": {
        "texts": 1000, "tokens": 32, "prompt": "",
        "openings": [
            "Patient, aged 61. S: {term}. O:", "Complaint: {term}. Found:", "Patient, aged 47. P: for {term},",
            "Thank you for sending this patient with {term}. On examination there was",
        ],
        "terms": {label: list(known.terms) for label, known in SPECIALTIES.items()},
    },
    "discriminator": {"method": "means", "dimensions": 48},
    "selection": {"texts": 600},
}  # fmt: skip


def play(
    out: Path, seed: int = 0, watch: Any = Watch, settings: dict[str, Any] | None = None
) -> tuple[Path, dict[str, Any]]:
    """Runs or resumes the demo; returns its directory and what was measured."""
    home = out.resolve() / "home"
    runs.refuse_foreign(out, ("corpus", "home", "run"))
    body: dict[str, Any] = json.loads(json.dumps(settings or SETTINGS))
    files = files_in(out / "corpus")
    body["data"] |= {name: str(getattr(files, name).resolve()) for name in ("private", "holdout")}
    body["privacy"] |= {"secrets": str(files.secrets.resolve())}
    body["compute"] = {"device": "cpu", "seed": seed, **body.get("compute", {})}
    config = AugmentConfig.model_validate(body)
    here = runs.begin(out / "run", configs.to_yaml(config), home / "ledger.sqlite", home)  # refuses other settings
    corpus(out / "corpus", seed, body["data"]["units"])
    with here.working(), identity.at(home):
        work = augmenting.augment(config, here, watch)
        found = measure_augment.evaluate(here, watch, encoder=work.encoder)
    return here.folder, found


def corpus(folder: Path, seed: int, patients: int) -> ClinicFiles:
    done = folder / "seed.json"
    if not done.exists() or json.loads(done.read_text()) != [seed, patients]:
        files = write_corpus(folder, patients=patients, holdout=HELD_OUT, seed=seed)
        write_text(done, json.dumps([seed, patients]))
        return files
    return files_in(folder)
