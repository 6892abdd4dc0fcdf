"""A causal language model in two parts: the trunk, run once and never trained, and the top, run once for each teacher.

Adapters sit in the top n blocks only, so everything below them is the same for all teachers. The split calls the
model's own blocks (GPT-2 and the Llama/Qwen family, told apart by their attributes) with an explicit mask and
explicit positions, which is what packed rows need, and `checked_split` compares it with the whole model before anyone
relies on it.

    split = checked_split(lm.model, top_blocks=2)
    hidden = split.trunk(tokens)                       # [rows, T, d], no gradient
    hidden = split.top(hidden)                         # [rows, T, d] after the final norm; the head's input
"""

import copy
import hashlib
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AttentionInterface

from hearsay.errors import ModelError

# All but cuDNN's: its backward pass gave NaN for masked rows with large scores (torch 2.11 on an H200), where these
# gave numbers.
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

PLAIN = "hearsay_plain"  # the name of `plain_attention` among the model's attentions

_GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "gpt2": {"attention": ("attn.c_attn", "attn.c_proj"), "mlp": ("mlp.c_fc", "mlp.c_proj")},
    "llama": {
        "attention": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
        "mlp": ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    },
}


@dataclass(frozen=True)
class Split:
    family: str
    inner: Any  # the model without its head: embeddings, blocks, final norm
    below: list[nn.Module]
    above: list[nn.Module]  # copies that share the base's weights: linear layers in them may be replaced
    norm: nn.Module
    head: Tensor  # [vocabulary, d]
    head_bias: Tensor | None
    positions: int  # the longest row the model can take

    @property
    def first(self) -> int:
        """Index, in the whole model, of the lowest block of the top."""
        return len(self.below)

    @property
    def prefix(self) -> str:
        """Where the blocks live in the whole model's state: what adapter files are keyed by."""
        return "transformer.h" if self.family == "gpt2" else "model.layers"

    def fingerprint(self) -> str:
        """Of the base: the first few numbers of every weight tell one model, or one merged student, from another."""
        found = hashlib.sha256()
        for name, weight in self.inner.named_parameters():
            found.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
            found.update(weight.detach().flatten()[:64].double().cpu().numpy().tobytes())
        return found.hexdigest()[:16]

    def trunk(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """[rows, T] tokens to [rows, T, d]. Positions that restart at 0 start a new sentence, unseen by the one
        before.
        """
        with torch.no_grad():
            if self.family == "gpt2":
                places = torch.arange(tokens.shape[1], device=tokens.device) if positions is None else positions
                hidden = self.inner.wte(tokens) + self.inner.wpe(places)
            else:
                hidden = self.inner.embed_tokens(tokens)
            return self.through(self.below, hidden, positions)

    def top(self, hidden: Tensor, positions: Tensor | None = None) -> Tensor:
        return self.norm(self.through(self.above, hidden, positions))  # type: ignore[no-any-return]

    def through(self, blocks: list[nn.Module], hidden: Tensor, positions: Tensor | None) -> Tensor:
        extra = self._extra(hidden, positions)
        with sdpa_kernel(KERNELS):
            for block in blocks:
                out = block(hidden, **extra)
                hidden = out if isinstance(out, Tensor) else out[0]  # older releases return a tuple
        return hidden

    def _extra(self, hidden: Tensor, positions: Tensor | None) -> dict[str, Any]:
        # No mask means plain causal attention, which sdpa runs without materialising anything.
        extra: dict[str, Any] = {"attention_mask": None if positions is None else sentence_mask(positions)}
        if self.family == "llama":
            if positions is None:
                positions = torch.arange(hidden.shape[1], device=hidden.device)[None]
            extra |= {"position_ids": positions, "position_embeddings": self.inner.rotary_emb(hidden, positions)}
        return extra


def sentence_mask(positions: Tensor) -> Tensor:
    """[rows, 1, T, T], true where a token may look: at itself and at earlier tokens of its own sentence."""
    sentence = (positions == 0).cumsum(-1)
    same = sentence[:, :, None] == sentence[:, None, :]
    return same.tril()[:, None]


def checked_split(model: Any, top_blocks: int) -> Split:
    """The split, after comparing it with the whole model on a probe: a twist we do not know must not pass unseen."""
    split = _split(model, top_blocks)
    device = split.head.device
    tokens = torch.arange(12, device=device).remainder(split.head.shape[0])[None]
    with torch.no_grad():
        want = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits.float()
        got = (split.top(split.trunk(tokens)) @ split.head.T).float()
        got = got if split.head_bias is None else got + split.head_bias
    tolerance = 1e-4 if split.head.dtype == torch.float32 else 0.1
    if not torch.allclose(got, want, atol=tolerance * float(want.abs().max()), rtol=0):
        raise ModelError(
            f"got {type(model).__name__}, whose blocks do not compute what the whole model computes; "
            "need a GPT-2, Llama or Qwen2-like model; set model: to one of those"
        )
    return split


def _split(model: Any, top_blocks: int) -> Split:
    family, inner = _family(model)
    blocks = list(inner.h if family == "gpt2" else inner.layers)
    if not 1 <= top_blocks <= len(blocks):
        raise ModelError(f"got adapter.blocks {top_blocks}, need 1 to {len(blocks)}, the number of blocks of the model")
    cut = len(blocks) - top_blocks
    head = model.get_output_embeddings()
    return Split(
        family=family,
        inner=inner,
        below=[_copy(block) for block in blocks[:cut]],
        above=[_copy(block) for block in blocks[cut:]],
        norm=inner.ln_f if family == "gpt2" else inner.norm,
        head=head.weight.detach(),
        head_bias=None if getattr(head, "bias", None) is None else head.bias.detach(),
        positions=int(model.config.max_position_embeddings),
    )


def _family(model: Any) -> tuple[str, Any]:
    gpt2, llama = getattr(model, "transformer", None), getattr(model, "model", None)
    if gpt2 is not None and all(hasattr(gpt2, name) for name in ("wte", "wpe", "h", "ln_f")):
        return "gpt2", gpt2
    if llama is not None and all(hasattr(llama, name) for name in ("embed_tokens", "layers", "norm", "rotary_emb")):
        return "llama", llama
    raise ModelError(f"got {type(model).__name__}, need a GPT-2, Llama or Qwen2-like model; set model: to one of those")


def _copy(block: nn.Module) -> nn.Module:
    """A block of our own on the base's weights: memo keeps deepcopy from copying the tensors."""
    shared: dict[int, Any] = {id(tensor): tensor for tensor in [*block.parameters(), *block.buffers()]}
    ours = copy.deepcopy(block, shared).eval().requires_grad_(False)
    for module in list(ours.modules()):
        if hasattr(module, "config"):
            cast(Any, module).config._attn_implementation = _attention(ours)
    fuse_activations(ours)
    return ours


def _attention(block: nn.Module) -> str:
    """`sdpa` takes our masks, and causality without one; but its way back is slow on a processor in bfloat16."""
    weight = next(block.parameters())
    grouped = any(hasattr(module, "num_key_value_groups") for module in block.modules())
    slow = weight.device.type == "cpu" and weight.dtype == torch.bfloat16
    return PLAIN if slow and not grouped else "sdpa"


def plain_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """Attention as products in float32: for rows of some hundred tokens, much faster there and back than `sdpa`; where
    nobody goes back `sdpa` is the faster one.
    """
    if not torch.is_grad_enabled():
        found = nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=scaling
        )
        return found.transpose(1, 2), None
    seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril() if mask is None else mask
    scores = (query.float() @ key.float().transpose(-1, -2)).mul(scaling).masked_fill(~seen, -torch.inf)
    return (torch.softmax(scores, -1) @ value.float()).to(query.dtype).transpose(1, 2), None


AttentionInterface.register(PLAIN, plain_attention)


def fuse_activations(module: nn.Module) -> None:
    """GPT-2's activation in one pass instead of eight: the same function, and nothing that is saved changes."""
    for owner in list(module.modules()):
        for name, child in owner.named_children():
            if type(child).__name__ == "NewGELUActivation":
                setattr(owner, name, nn.GELU(approximate="tanh"))


def target_names(split: Split, targets: tuple[str, ...]) -> tuple[str, ...]:
    """Layers of one block that get an adapter, from group names (attention, mlp) or names such as attn.c_attn."""
    groups = _GROUPS[split.family]
    known = [name for group in groups.values() for name in group]
    chosen = {name for target in targets for name in groups.get(target, (target,))}
    if unknown := sorted(chosen - set(known)):
        raise ModelError(f"got adapter targets {', '.join(unknown)}, need attention, mlp or any of {', '.join(known)}")
    return tuple(name for name in known if name in chosen)
