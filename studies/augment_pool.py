"""The candidate pool of the augmentation study: labelled texts from a small public model, none of them private.

A base model is tuned for a minute on public medical questions and answers, with control codes in front, then writes
texts for every specialty: two of three go on from the opening of a clinical note (studies/specialties.py), the third
from the specialty and a topic alone. One pool serves every method, so that methods are compared and not pools.

    PYTHONPATH=src python studies/augment_pool.py --model MODEL --medquad medquad.jsonl.xz --out DIR
"""

import argparse
import json
import lzma
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from hearsay import lm as models

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies.specialties import OPENINGS, TERMS, fill, opening, specialty_of

CODE = "Specialty: {label}. Topic: {topic}. Note: {start}"
ROW = 224  # tokens of a training row


def main() -> None:
    given = _arguments()
    chance = random.Random(given.seed)
    torch.manual_seed(given.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    began = time.monotonic()
    lm = models.load(str(given.model), device=device)
    passages = _passages(given.medquad, chance)
    losses = _tune(lm, passages, given.steps, given.batch, given.learning_rate)
    tuned = time.monotonic()
    pool = _write(lm, given.texts, given.tokens, given.seed, chance)
    _save(given.out, pool, {
        "texts": len(pool), "labels": Counter(row["label"] for row in pool), "passages": len(passages),
        "loss_first": losses[0], "loss_last": losses[-1], "device": device, "steps": given.steps,
        "seconds_tuning": round(tuned - began, 1), "seconds_writing": round(time.monotonic() - tuned, 1),
        "model": Path(given.model).name, "torch": torch.__version__,
    })  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of the public base model")
    parser.add_argument("--medquad", type=Path, required=True, help="medquad.jsonl.xz: public questions and answers")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=39_000)
    parser.add_argument("--tokens", type=int, default=128, help="most new tokens of a text")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _passages(path: Path, chance: random.Random) -> list[str]:
    """Public answers cut into passages, each behind its code; half begin like a note on the topic."""
    found = []
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            topic, words = row["focus"].strip(), row["answer"].split()
            label = specialty_of(f"{row['focus']} {row['question']}") or specialty_of(row["answer"])
            if label is None or len(words) < 20:
                continue
            for at in range(0, min(len(words), 600), 110):
                start = fill(chance.choice(OPENINGS), topic, label, chance) if chance.random() < 0.5 else ""
                passage = " ".join(words[at : at + 110])
                found.append(CODE.format(label=label, topic=topic, start=f"{start} {passage}".strip()))
    chance.shuffle(found)
    return found


def _tune(lm: models.LanguageModel, texts: list[str], steps: int, batch: int, rate: float) -> list[float]:
    """Plain fine-tuning of all weights: the data is public, so nothing is clipped or noised."""
    end, lead = models.end_id(lm), [models.start_id(lm) or models.end_id(lm)]
    rows = [lead + row + [end] for row in models.encode(lm, texts, ROW - 2)]
    weights = list(lm.model.requires_grad_(True).train().parameters())
    optimiser = torch.optim.AdamW(weights, lr=rate, weight_decay=0.01)
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, max(0.02, (steps - step) / (steps - warm + 1)))
    )
    losses = []
    for step in range(steps):
        loss = _loss(lm, [rows[(step * batch + i) % len(rows)] for i in range(batch)], end)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        schedule.step()
        if step % 50 == 0 or step == steps - 1:
            losses.append(round(loss.item(), 4))
            print(f"step {step} loss {losses[-1]}", flush=True)
    lm.model.eval().requires_grad_(False)
    return losses


def _loss(lm: models.LanguageModel, rows: list[list[int]], end: int) -> torch.Tensor:
    width = max(map(len, rows))
    tokens = torch.tensor([row + [end] * (width - len(row)) for row in rows], device=lm.device)
    seen = torch.arange(width)[None] < torch.tensor([len(row) for row in rows])[:, None]
    targets = tokens.masked_fill(~seen.to(lm.device), -100)
    with torch.autocast(lm.device.type, torch.bfloat16):
        logits = lm.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets[:, 1:].flatten())


def _write(lm: models.LanguageModel, texts: int, tokens: int, seed: int, chance: random.Random) -> list[dict[str, Any]]:
    labels = sorted(TERMS)
    asked = []
    for index in range(texts):
        label = labels[index % len(labels)]
        topic, start = opening(label, chance)
        asked.append((label, topic, start if (index // len(labels)) % 3 else ""))
    prompts = [CODE.format(label=label, topic=topic, start=start).strip() for label, topic, start in asked]
    if lm.device.type == "cuda":
        models.BATCH_TOKENS["cuda"] = 2**19
        lm.model.to(torch.bfloat16)
    random_numbers = torch.Generator().manual_seed(seed)
    rows = models.generate(
        lm,
        models.encode(lm, prompts, 200),
        max_tokens=tokens,
        temperature=0.9,
        top_p=0.95,
        generator=random_numbers,
    )
    made = models.decode(lm, rows)
    return [
        {"label": label, "topic": topic, "text": f"{start} {text.strip()}".strip()}
        for (label, topic, start), text in zip(asked, made, strict=True)
        if len(text.split()) >= 20
    ]


def _save(out: Path, pool: list[dict[str, Any]], stats: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with lzma.open(out / "pool.jsonl.xz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in pool)
    stats["bytes"] = (out / "pool.jsonl.xz").stat().st_size
    (out / "pool.json").write_text(json.dumps(stats, indent=1))
    print(json.dumps(stats), flush=True)
    for row in pool[:: max(1, len(pool) // 8)][:8]:
        print(f"[{row['label']}] {row['text'][:300]}", flush=True)


if __name__ == "__main__":
    main()
