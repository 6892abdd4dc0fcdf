"""Both systems in one ledger, measured: a coded student writes the candidates, or a public model does, for one epsilon.

    PYTHONPATH=src python studies/augment_coded.py --out DIR [--patients 1500] [--seeds 0 1 2] [--device cpu]

The simulated clinic; the settings of examples/coded-student.yaml and coded-corpus.yaml. The student's run spends a part
of the budget and the corpus's run the rest; beside it the embedded model, with the same openings and all of the budget.
Every ledger is verified. Results grow in one JSON file; a finished seed is not redone.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import yaml

from hearsay import augmenting, measure_augment, pipeline
from hearsay import config as configs
from hearsay import run as runs
from hearsay.accounting import identity, verify
from hearsay.accounting.ledger import Ledger
from hearsay.config import Config
from hearsay.config_augment import AugmentConfig
from hearsay.demo import clinic
from hearsay.release.door import check_answers
from hearsay.run import Run

EXAMPLES = Path(__file__).parents[1] / "examples"
HELD_OUT = 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--patients", type=int, default=1500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    path = given.out / "augment-coded.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"seeds": {}}
    found |= {"patients": given.patients, "machine": runs.environment()}
    for seed in given.seeds:
        if str(seed) not in found["seeds"]:
            found["seeds"][str(seed)] = one_seed(given.out / f"seed-{seed}", given.patients, seed, given.device)
            path.write_text(json.dumps(found, indent=1))
            print(json.dumps(found["seeds"][str(seed)]), flush=True)


def one_seed(folder: Path, patients: int, seed: int, device: str) -> dict[str, Any]:
    files = clinic.write_corpus(folder / "corpus", patients=patients, holdout=HELD_OUT, seed=seed)
    home = (folder / "home").resolve()
    with identity.at(home):
        student = taught(folder / "student", student_config(files, patients, seed, device), home)
        mine = corpus_config(files, patients, seed, device, {"model": str(student.folder)})
        ours = chosen(folder / "corpus-run", mine, home)
    apart = (folder / "home-public").resolve()
    plain = {"backend": "local", "model": "embedded", "prompt": ""}  # the same openings, no code
    with identity.at(apart):
        whole = corpus_config(files, patients, seed, device, plain, spend=1.0)
        public = chosen(folder / "public-run", whole, apart)
    verified = {"student_run": _verified(student), "corpus_run": _verified(runs.open_run(folder / "corpus-run"))}
    return {"coded": ours, "public": public, "verified": verified}


def student_config(files: clinic.ClinicFiles, patients: int, seed: int, device: str) -> Config:
    body = yaml.safe_load((EXAMPLES / "coded-student.yaml").read_text())
    body["data"] |= {
        "private": str(files.private.resolve()), "public": str(files.public.resolve()), "units": patients,
        "sentences": 3 * patients // 2,
    }  # fmt: skip
    body["teachers"]["count"] = max(2, patients // 10)
    body["compute"] = {"device": device, "seed": seed}
    return Config.model_validate(body)


def corpus_config(
    files: clinic.ClinicFiles, patients: int, seed: int, device: str, generator: dict[str, Any], **privacy: Any
) -> AugmentConfig:
    body = yaml.safe_load((EXAMPLES / "coded-corpus.yaml").read_text())
    paths = {name: str(getattr(files, name).resolve()) for name in ("private", "holdout", "secrets")}
    body["data"] |= {"private": paths["private"], "holdout": paths["holdout"], "units": patients}
    body["privacy"] |= {"secrets": paths["secrets"], **privacy}
    body["generator"] |= generator
    body["compute"] = {"device": device, "seed": seed}
    return AugmentConfig.model_validate(body)


def taught(folder: Path, config: Config, home: Path) -> Run:
    here = runs.begin(folder, configs.to_yaml(config), home / "ledger.sqlite", home)
    pipeline.generate(config, here, anyway=True, research=True)
    return here


def chosen(folder: Path, config: AugmentConfig, home: Path) -> dict[str, Any]:
    """What a classifier learnt from the corpus, what was promised, and the secrets found in it."""
    here = runs.begin(folder, configs.to_yaml(config), home / "ledger.sqlite", home)
    work = augmenting.augment(config, here, research=True)
    found = measure_augment.evaluate(here, encoder=work.encoder)
    said = json.loads((here.release / "statement.json").read_text())
    figures = {
        name: {key: body[key] for key in ("f1_macro", "f1_weighted", "accuracy")}
        for name, body in found["models"].items()
    }
    return {"models": figures, "epsilon": said["epsilon"], "charges": said["charges"], "leaks": found["leaks"],
            "candidates": len(work.candidates)}  # fmt: skip


def _verified(run: Run) -> bool:
    """As `hearsay ledger verify RUN`: both accountants, the chain, the heads, every released answer."""
    ledger = Ledger.open(run.ledger)
    problems = [*verify.verify(ledger).problems, *verify.check_run_head(ledger, run.folder)]
    return not [*problems, *check_answers(ledger, run.id, run.folder)]


if __name__ == "__main__":
    main()
