"""Train the base model that ships inside the package, from public text alone, in one command.

Text becomes a tokenizer and streams of tokens (base_tokens.py), and those a GPT-2 of about 3.5 million parameters in
half precision, at most 8 MB with its tokenizer. Private text never comes near it: this is the model that a run starts
from, so nothing it knows is charged to a privacy budget.

The clock sets the schedule: the learning rate reaches zero when the minutes are up, so that a slower machine gives a
less trained model and never an unfinished one. Needs torch, transformers and numpy; not the hearsay package.

    python3 scripts/train_base.py --text public-1.txt.bz2 public-2.txt.bz2 --minutes 5
    python3 scripts/train_base.py --text some.txt --out dry --layers 1 --width 32 --batch 2 --minutes 0.1
"""

import argparse
import json
import math
import platform
import shlex
import sys
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from torch import Tensor
from torch.nn.functional import cross_entropy

from base_tokens import HELD_OUT, KINDS, SPECIAL, Blocks, Recipe, prepare, say

LIMIT = 8_000_000  # bytes of the whole folder: it travels inside the package
HEAD = 32  # width of an attention head
WARM_UP = 0.02  # of the time
LOG_SECONDS = 5.0


@dataclass(frozen=True)
class Settings:
    text: list[Path] = field(metadata={"help": "public text files, plain or .bz2"})
    out: Path = field(default=Path("src/hearsay/demo/base"), metadata={"help": "folder of the trained model"})
    cache: Path = field(default=Path("runs/base-tokens"), metadata={"help": "folder of tokens, kept for a second run"})
    card: Path = field(
        default=Path(__file__).with_name("base_card.md"), metadata={"help": "model card template; it names the sources"}
    )
    minutes: float = field(default=5.0, metadata={"help": "training time; text and first step are not counted"})
    steps: int = field(default=0, metadata={"help": "this many steps instead, whatever time they take"})
    layers: int = field(default=4, metadata={"help": "transformer blocks"})
    width: int = field(default=192, metadata={"help": "width of the residual stream, a multiple of 32"})
    vocab: int = field(default=8192, metadata={"help": "tokens of the byte-level BPE"})
    positions: int = field(default=512, metadata={"help": "context, and tokens of a training block"})
    batch: int = field(default=256, metadata={"help": "blocks of a step"})
    lr: float = field(default=3e-3, metadata={"help": "peak learning rate"})
    weight_decay: float = field(default=0.1, metadata={"help": "on matrices, not on biases and norms"})
    dialogue_weight: float = field(default=3.0, metadata={"help": "how often dialogue is drawn; other text is 1"})
    medical_weight: float = field(default=2.0, metadata={"help": "how often medical text is drawn; other text is 1"})
    sample_mb: float = field(default=36.0, metadata={"help": "text that the tokenizer is trained on"})
    seed: int = field(default=1, metadata={"help": "of the weights and of the draws"})
    compile: bool = field(default=False, metadata={"help": "torch.compile; needs a C compiler"})

    @property
    def recipe(self) -> Recipe:
        weights = dict(zip(KINDS, (1.0, self.dialogue_weight, self.medical_weight), strict=True))
        return Recipe(self.vocab, self.sample_mb, weights)


def parse(arguments: list[str]) -> Settings:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for item in fields(Settings):
        name, words = "--" + item.name.replace("_", "-"), item.metadata["help"]
        if item.name == "text":
            parser.add_argument(name, type=Path, nargs="+", required=True, help=words)
        elif item.type is bool:
            parser.add_argument(name, action="store_true", help=words)
        else:
            parser.add_argument(name, type=type(item.default), default=item.default, help=f"{words} ({item.default})")
    settings = Settings(**vars(parser.parse_args(arguments)))
    if missing := [str(path) for path in [*settings.text, settings.card] if not path.is_file()]:
        parser.error(f"got {', '.join(missing)}, which is not there; need files of public text and a card template")
    if settings.width % HEAD:
        parser.error(f"got --width {settings.width}; need a multiple of {HEAD}: type --width 192")
    return settings


def new_model(settings: Settings, vocab: int) -> Any:
    config = transformers.GPT2Config(
        vocab_size=vocab, n_positions=settings.positions, n_embd=settings.width, n_layer=settings.layers,
        n_head=settings.width // HEAD, bos_token_id=0, eos_token_id=0,
        activation_function="gelu_pytorch_tanh",  # what GPT-2 computes, as one kernel
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,  # a model this small does not overfit; noise only slows it
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")


def check_room(model: Any, settings: Settings, record: dict[str, Any]) -> None:
    """Refuse before the minutes are spent, not after."""
    size = 2 * sum(weight.numel() for weight in model.parameters()) + (settings.cache / "tokenizer.json").stat().st_size
    if size > LIMIT:
        raise SystemExit(f"got a model of {size:,} bytes; need at most {LIMIT:,}: type a smaller --width or --layers")
    if min(max(record[stream].values()) for stream in ("train", "held_out")) <= settings.positions:
        got = f"got {record['train']} tokens to train on and {record['held_out']} held out"
        raise SystemExit(f"{got}; need a kind with over {settings.positions} in both: type more files after --text")


def loss_of(model: Any, block: Tensor, reduction: str = "mean") -> Tensor:
    training = block.is_cuda and torch.is_grad_enabled()  # what the card states is computed in single precision
    with torch.autocast(block.device.type, torch.bfloat16, enabled=training):
        logits = model(input_ids=block[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1).float(), block[:, 1:].flatten(), reduction=reduction)


def rate(done: float) -> float:
    """Share of the peak learning rate when this share of the time is gone: a warm-up, then a cosine to zero."""
    return min(1.0, done / WARM_UP) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def new_optimizer(model: Any, settings: Settings) -> torch.optim.Optimizer:
    weights = list(model.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.lr, betas=(0.9, 0.95), fused=weights[0].is_cuda)


def step(model: Any, optimizer: torch.optim.Optimizer, block: Tensor, lr: float) -> Tensor:
    for group in optimizer.param_groups:
        group["lr"] = lr
    loss = loss_of(model, block)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def note(began: float, tokens: int, losses: list[Tensor]) -> dict[str, float]:
    mean = torch.stack(losses).mean().item()  # the only wait for the device
    seconds = time.monotonic() - began
    say(began, "train", f"loss {mean:.3f}  {tokens / 1e6:,.1f} million tokens  {tokens / seconds:,.0f} tokens/s")
    return {"seconds": round(seconds, 1), "tokens": tokens, "loss": round(mean, 4)}


def _share_done(settings: Settings, taken: int, began: float) -> float:
    """How far the schedule is: by the clock, or by steps where a run must not depend on the machine's speed."""
    return taken / settings.steps if settings.steps else (time.monotonic() - began) / (60 * settings.minutes)


def train(model: Any, blocks: Blocks, settings: Settings) -> list[dict[str, float]]:
    """Steps until the time is up; the mean loss of every few seconds comes back."""
    optimizer = new_optimizer(model, settings)
    step(model, optimizer, blocks.draw(settings.batch), 0.0).item()  # kernels are chosen and compiled off the clock
    curve: list[dict[str, float]] = []
    losses: list[Tensor] = []
    tokens = 0
    began, taken = time.monotonic(), 0
    logged = began
    while (done := _share_done(settings, taken, began)) < 1:
        taken += 1
        losses.append(step(model, optimizer, blocks.draw(settings.batch), settings.lr * rate(done)))
        tokens += settings.batch * settings.positions
        if time.monotonic() - logged > LOG_SECONDS:
            curve.append(note(began, tokens, losses))
            losses, logged = [], time.monotonic()
    return [*curve, note(began, tokens, losses)] if losses else curve


@torch.no_grad()
def perplexity(model: Any, tokens: Tensor, lengths: dict[str, int], settings: Settings) -> dict[str, float]:
    """On held-out blocks that do not overlap; a kind with less than a block of text is left out."""
    found: dict[str, tuple[float, int]] = {}
    for kind, stream in zip(KINDS, torch.split(tokens, list(lengths.values())), strict=True):
        blocks = stream[: len(stream) // (settings.positions + 1) * (settings.positions + 1)]
        batches = torch.split(blocks.view(-1, settings.positions + 1), settings.batch)
        if len(blocks):
            total = sum(loss_of(model, batch.long(), "sum").item() for batch in batches)
            found[kind] = total, len(blocks) // (settings.positions + 1) * settings.positions
    found["all"] = sum(total for total, _ in found.values()), sum(count for _, count in found.values())
    return {kind: round(math.exp(total / count), 2) for kind, (total, count) in found.items() if count}


def save(model: Any, settings: Settings) -> None:
    """Half precision, in the format that Hugging Face reads."""
    # not earlier: with a padding token, every forward pass looks for padding and so waits for the device
    model.config.pad_token_id = model.generation_config.pad_token_id = 0
    model.half().save_pretrained(settings.out)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(settings.cache / "tokenizer.json"), model_max_length=settings.positions,
        bos_token=SPECIAL, eos_token=SPECIAL, pad_token=SPECIAL, unk_token=SPECIAL,
    )  # fmt: skip
    tokenizer.save_pretrained(settings.out)


def describe(settings: Settings, record: dict[str, Any], curve: list[dict[str, float]]) -> dict[str, Any]:
    """What happened, for training.json; file names without folders, which mean nothing elsewhere."""
    kept = {name: value for name, value in asdict(settings).items() if not isinstance(value, Path | list)}
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    versions |= {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__}
    command = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return {
        "command": shlex.join(["python3", "scripts/train_base.py", *command]),
        "settings": kept, "text": record["text"], "tokens": {name: record[name] for name in ("train", "held_out")},
        "tokens_seen": curve[-1]["tokens"], "loss_curve": curve, "versions": versions,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
    }  # fmt: skip


def write_card(settings: Settings, report: dict[str, Any]) -> None:
    lengths, weights = report["tokens"]["train"], settings.recipe.weights
    drawn = sum(lengths[kind] * weights[kind] for kind in KINDS)
    rows = [
        f"| {kind} | {lengths[kind]:,} | {weights[kind]:g} | {lengths[kind] * weights[kind] / drawn:.0%} "
        f"| {report['perplexity'].get(kind, 'not measured')} |" for kind in KINDS
    ]  # fmt: skip
    files = [f"- `{file['name']}`, {file['bytes']:,} bytes, sha256 `{file['sha256']}`" for file in report["text"]]
    card = Template(settings.card.read_text()).substitute(
        command=report["command"], device=report["device"], files="\n".join(files), kinds="\n".join(rows),
        parameters=f"{report['parameters'] / 1e6:.2f}", layers=settings.layers, width=settings.width,
        heads=settings.width // HEAD, positions=settings.positions, vocab=f"{report['vocab']:,}",
        minutes=f"{settings.minutes:g}", seen=f"{report['tokens_seen'] / 1e6:,.0f}", held_out=HELD_OUT,
        perplexity=report["perplexity"]["all"], versions=", ".join(" ".join(v) for v in report["versions"].items()),
    )  # fmt: skip
    (settings.out / "README.md").write_text(card)


def main() -> None:
    settings = parse(sys.argv[1:])
    record = prepare(settings.text, settings.recipe, settings.cache)
    torch.manual_seed(settings.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = tokenizers.Tokenizer.from_file(str(settings.cache / "tokenizer.json"))
    model = new_model(settings, tokenizer.get_vocab_size()).to(device)
    check_room(model, settings, record)
    # int32, because 16-bit unsigned numbers cannot be indexed on every device
    streams = {
        name: torch.from_numpy(np.load(settings.cache / f"{name}.npy").astype(np.int32)).to(device)
        for name in ("train", "held_out")
    }
    newline = tokenizer.encode("\n").ids[0]
    weights = list(settings.recipe.weights.values())
    blocks = Blocks(streams["train"], list(record["train"].values()), weights, newline, settings.positions)
    curve = train(torch.compile(model) if settings.compile else model, blocks, settings)
    model.half().float()  # measured as it will be read: the weights rounded to half precision
    report = describe(settings, record, curve)
    report |= {"parameters": model.num_parameters(), "vocab": tokenizer.get_vocab_size()}
    report["perplexity"] = perplexity(model.eval(), streams["held_out"], record["held_out"], settings)
    save(model, settings)
    (settings.out / "training.json").write_text(json.dumps(report, indent=1) + "\n")
    write_card(settings, report)
    size = sum(path.stat().st_size for path in settings.out.iterdir())
    print(f"held-out perplexity {report['perplexity']}; {report['parameters']:,} parameters, {size:,} bytes")


if __name__ == "__main__":
    main()
