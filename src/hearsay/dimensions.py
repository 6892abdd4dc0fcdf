"""How many numbers a round of updates moves, read from a model's config.json alone: `plan` must stay quick.

A model that is not at hand (a hub id) is taken for one of GPT-2 small's size, and the run itself uses the real number.
"""

import json
from importlib import resources
from pathlib import Path
from typing import Any

from hearsay.errors import ConfigError

UNKNOWN = {"n_embd": 768, "n_layer": 12}


def of_outputs(model: str, rank: int, blocks: int) -> int:
    body = _settings(model)
    return rank * min(blocks, _layers(body)) * _outputs_of_a_block(body)


def of_adapters(model: str, rank: int, blocks: int) -> int:
    """Both halves: what DP-SGD moves."""
    body = _settings(model)
    return rank * min(blocks, _layers(body)) * (_outputs_of_a_block(body) + _inputs_of_a_block(body))


def missing_folder(model: str) -> str | None:
    """What to say of a model that can only be a folder, and is none."""
    written = Path(model).is_absolute() or model.startswith((".", "~")) or model.count("/") > 1
    if not written or Path(model).is_dir():
        return None
    return f"got model {model}, which is no folder; need a model folder, a hub id, or embedded"


def _settings(model: str) -> dict[str, Any]:
    if fault := missing_folder(model):
        raise ConfigError(fault)
    if model == "embedded":
        text = resources.files("hearsay.demo").joinpath("base", "config.json").read_text()
    else:
        path = Path(model) / "config.json"
        text = path.read_text() if path.is_file() else "{}"
    found: dict[str, Any] = json.loads(text)
    return found or UNKNOWN


def _layers(body: dict[str, Any]) -> int:
    return int(body.get("n_layer") or body.get("num_hidden_layers") or 1)


def _outputs_of_a_block(body: dict[str, Any]) -> int:
    """Widths of what the adapted layers of a block give: attention and MLP (split.py has their names)."""
    if "n_embd" in body:
        width = int(body["n_embd"])
        return 3 * width + width + (body.get("n_inner") or 4 * width) + width
    width, heads = int(body["hidden_size"]), int(body["num_attention_heads"])
    head = int(body.get("head_dim") or width // heads)
    keys = head * int(body.get("num_key_value_heads") or heads)
    return heads * head + 2 * keys + width + 2 * int(body["intermediate_size"]) + width


def _inputs_of_a_block(body: dict[str, Any]) -> int:
    """Widths of what these layers take."""
    if "n_embd" in body:
        width = int(body["n_embd"])
        return 3 * width + (body.get("n_inner") or 4 * width)
    width, heads = int(body["hidden_size"]), int(body["num_attention_heads"])
    mixed = heads * int(body.get("head_dim") or width // heads)
    return 5 * width + mixed + int(body["intermediate_size"])
