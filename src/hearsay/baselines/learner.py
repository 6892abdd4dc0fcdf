"""What DP-SGD trains: PEFT's LoRA on the layers that the teachers adapt, or all weights; one loss for each row.

The same adapter, the same packed rows and the same loss as the stack's (private/training.gradient), through other
people's code (transformers, PEFT, Opacus): so a difference in results is the method's, and the tests can compare.
"""

import copy
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import sdpa_kernel

from hearsay.adapter_files import merged, peft_settings, place
from hearsay.errors import ModelError
from hearsay.lm import LanguageModel
from hearsay.split import KERNELS, sentence_mask
from hearsay.stacked import StackedTop
from hearsay.vocabulary import token_losses

Trainable = Literal["adapter", "full"]


class Learner(nn.Module):
    """`forward` gives each row's mean loss. Begins at the adapter `start` [D] (all weights: with it merged in)."""

    def __init__(self, lm: LanguageModel, top: StackedTop, start: Tensor, trainable: Trainable = "adapter") -> None:
        super().__init__()
        self._lm, self._top, self.trainable = lm, top, trainable
        self.model = _with_lora(lm, top, start) if trainable == "adapter" else _whole(lm, top, start)
        # By name: as a second attribute Opacus would listen to its layers twice.
        self._inner = top.split.prefix.rpartition(".")[0]
        self.eval()  # no dropout
        for module in self.modules():
            if any(p.requires_grad for p in module.parameters(recurse=False)):
                module.train()  # Opacus listens to training layers only; none of these drops anything

    def forward(self, tokens: Tensor, targets: Tensor, positions: Tensor) -> Tensor:
        inner, mask = self.model.get_submodule(self._inner), sentence_mask(positions)
        with sdpa_kernel(KERNELS):  # the backward pass is that of the kernel chosen here
            out = inner(input_ids=tokens, attention_mask=mask, position_ids=positions, use_cache=False)
        hidden: Tensor = out.last_hidden_state
        valid = (targets >= 0).float()
        losses = self._losses(hidden, targets.clamp(min=0)) * valid
        return losses.sum(1) / valid.sum(1).clamp(min=1)

    def _losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        if self.trainable == "adapter":  # a frozen head: the logits need not be held
            found = token_losses(hidden.flatten(0, 1), self._top.split.head, targets.flatten())
        else:
            logits = self.model.get_output_embeddings()(hidden)
            found = functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
        return found.view(targets.shape)

    @property
    def weights(self) -> list[nn.Parameter]:
        """What is trained, in the order of `flat`."""
        if self.trainable == "full":
            return list(self.model.parameters())
        layers = [self.model.get_submodule(place(self._top, slot)) for slot in self._top.layout.slots]
        return [pair["default"].weight for layer in layers for pair in (layer.lora_A, layer.lora_B)]

    def flat(self, values: list[Tensor]) -> Tensor:
        """Values shaped like `weights` as one vector; an adapter's in the stack's layout (PEFT stores transposed)."""
        turned = [value.T for value in values] if self.trainable == "adapter" else values
        return torch.cat([value.detach().float().flatten() for value in turned])

    def student(self, flat: Tensor) -> LanguageModel:
        """The trained model, from what `flat` gave."""
        lm = self._lm
        if self.trainable == "adapter":
            return merged(lm, self._top, flat)
        model, at = copy.deepcopy(lm.model).float(), 0  # in bfloat16 small moves would be lost
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(flat[at : at + weight.numel()].view(weight.shape))
                at += weight.numel()
        return LanguageModel(model=model, tokenizer=lm.tokenizer, source=lm.source)


def _with_lora(lm: LanguageModel, top: StackedTop, start: Tensor) -> Any:
    import peft

    told = peft_settings(lm, top)
    for foreign in ("peft_type", "inference_mode", "base_model_name_or_path"):
        told.pop(foreign)
    model = peft.inject_adapter_in_model(peft.LoraConfig(**told), copy.deepcopy(lm.model))
    views = top.layout.views(start.detach().float().reshape(1, -1))
    for slot, a, b in zip(top.layout.slots, views[::2], views[1::2], strict=True):
        layer = model.get_submodule(place(top, slot))
        for pair, value in ((layer.lora_A, a), (layer.lora_B, b)):
            linear = pair["default"]
            if linear.weight.shape != value[0].T.shape:
                raise ModelError(f"got {slot.name}, which PEFT adapts in another shape; set model: to another one")
            linear.weight = nn.Parameter(value[0].T.contiguous().to(lm.device))  # float32, whatever the base is in
    return model


def _whole(lm: LanguageModel, top: StackedTop, start: Tensor) -> Any:
    return merged(lm, top, start).model.float().requires_grad_(True)
