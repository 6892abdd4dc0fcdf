"""One adapter outside the stack: a PEFT folder that any PEFT program loads, or merged into a copy of the base."""

import copy
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from hearsay.lm import LanguageModel
from hearsay.stacked import Slot, StackedTop


def write_peft(lm: LanguageModel, top: StackedTop, adapter: Tensor, folder: Path) -> None:
    """adapter_config.json and adapter_model.safetensors for one adapter [D]."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for slot, a, b in _pairs(top, adapter):
        key = f"base_model.model.{place(top, slot)}"
        tensors[f"{key}.lora_A.weight"] = a.T.contiguous()  # PEFT keeps both as nn.Linear does: [out, in]
        tensors[f"{key}.lora_B.weight"] = b.T.contiguous()
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps(peft_settings(lm, top), indent=2) + "\n", encoding="utf-8")


def peft_settings(lm: LanguageModel, top: StackedTop) -> dict[str, Any]:
    """The adapter's shape in PEFT's words."""
    shape, split = top.layout.shape, top.split
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": lm.source,
        "r": shape.rank,
        "lora_alpha": shape.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": split.family == "gpt2",  # Conv1D stores its weight transposed
        "target_modules": sorted({slot.name for slot in top.layout.slots}),
        "layers_to_transform": [split.first + i for i in range(len(split.above))],
        "layers_pattern": split.prefix.rpartition(".")[2],
        "inference_mode": True,
    }


def merged(lm: LanguageModel, top: StackedTop, adapter: Tensor) -> LanguageModel:
    """A language model of its own with one adapter [D] added to its weights."""
    model = copy.deepcopy(lm.model)
    with torch.no_grad():
        for slot, a, b in _pairs(top, adapter):
            layer = model.get_submodule(place(top, slot))
            change = top.layout.scale * (a @ b)
            change = change.T if isinstance(layer, nn.Linear) else change
            layer.weight.copy_(layer.weight.float() + change.to(layer.weight.device))
    return LanguageModel(model=model, tokenizer=lm.tokenizer, source=lm.source)


def place(top: StackedTop, slot: Slot) -> str:
    """The adapted layer's name in the whole model."""
    return f"{top.split.prefix}.{top.split.first + slot.block}.{slot.name}"


def _pairs(top: StackedTop, adapter: Tensor) -> list[tuple[Slot, Tensor, Tensor]]:
    views = top.layout.views(adapter.detach().cpu().float().reshape(1, -1))
    return [(slot, a[0], b[0]) for slot, a, b in zip(top.layout.slots, views[::2], views[1::2], strict=True)]
