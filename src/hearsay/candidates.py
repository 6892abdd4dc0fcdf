"""The candidates, from whichever backend, and the private rows; and that no text of the owner's files is both.

Candidates go to release/, so a file that the owner declared to be of no unit is compared with the private rows before
a word of it is written there: a refusal afterwards would leave private text where it is safe to share from.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from hearsay import charging, stages
from hearsay import lm as models
from hearsay.accounting import identity
from hearsay.config_augment import AugmentConfig, Generator
from hearsay.errors import BadInput
from hearsay.private.corpus import strangers
from hearsay.public import generator
from hearsay.public.endpoint import Endpoint
from hearsay.public.generator import Candidate
from hearsay.reading import Columns, Row, read_rows
from hearsay.run import Run, open_run
from hearsay.stages import Stages


def private_rows(config: AugmentConfig) -> Iterator[Row]:
    """Refuses, without a word about which, where a text stands in the owner's files of candidates too."""
    data, privacy = config.data, config.privacy
    columns = Columns(text=data.text, label=data.label, user=data.user if privacy.unit == "user" else None)
    rows = read_rows(data.private, columns, label_separator=data.separator)
    key = identity.derived_key("partition", privacy.corpus)
    return strangers(rows, generator.declared(config.generator), key, "generator.files")


def written(config: AugmentConfig, run: Run, flow: Stages) -> list[Candidate]:
    """The candidates, from whichever backend; kept in a file, so that they are written once."""
    path = run.release / "stages" / "candidates.jsonl"
    if not path.exists():
        if config.generator.files:
            deque(private_rows(config), maxlen=0)  # to the end: the refusal is the purpose
        with flow.start("candidates") as progress:
            generator.save(_write(config, run, progress), path)
    found = generator.load(path)
    generator.check(found, config.data.labels)
    return found


def _write(config: AugmentConfig, run: Run, progress: generator.Progress) -> list[Candidate]:
    settings, labels, seed = config.generator, config.data.labels, config.compute.seed
    if settings.backend == "file":
        for path in settings.files:
            charging.check_origin(path, run)
        return generator.from_files(settings.files, settings, labels)
    asked = generator.requests(settings, labels, seed)
    source = _source(settings, run)
    if settings.backend == "endpoint":
        texts = Endpoint(settings, config.endpoint, run.home / "responses").write(asked, progress)
    else:
        lm = models.load(source, device=stages.pick_device(config.compute.device))
        texts = generator.written_by(lm, asked, settings, seed, progress)
    return generator.cleaned(asked, texts, settings)


def _source(settings: Generator, run: Run) -> str:
    """The model that writes: for a student its run is named. A server may serve a student by its folder's name, too."""
    named = Path(settings.model)
    source = str(open_run(named).release / "student") if settings.backend == "student" else settings.model
    charging.check_origin(source, run)
    if settings.backend == "student" and not Path(source).is_dir():
        raise BadInput(f"{named} has no finished student; type `hearsay run CONFIG --out {named}` first")
    return source
