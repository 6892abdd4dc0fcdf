"""What larger work would cost, derived from measured rates: a 7B base, 100 million sentences, 100,000 users, 64 GPUs.

Nothing here was run. FLOPs follow from the shapes of the layers as in benchmarks/workload.py; the GPU's peak and the
share of it that is reached are those of benchmarks/two_thousand.py, and so is the assumption that a larger model
reaches at least the same share (its products are larger, so they should reach more).
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Plan:
    layers: int = 32
    width: int = 4096
    inner: int = 11008
    vocabulary: int = 32000
    top_blocks: int = 4
    rank: int = 8
    sentences: float = 1e8
    tokens: float = 21.0  # a sentence, its start included
    epochs: float = 3.0
    users: float = 1e5
    teachers: float = 2e4
    gpus: int = 64
    asked: float = 1000.0  # pseudo sentences
    questions: float = 1e4
    candidates: int = 64
    rounds: int = 60  # of updates
    rows: float = 128.0  # tokens of a user in a round
    block: int = 64
    link: float = 1.25e9  # bytes a second between machines: 10 Gbit/s, a poor network

    @property
    def block_weights(self) -> float:
        return 4.0 * self.width**2 + 3.0 * self.width * self.inner

    @property
    def parameters(self) -> float:
        return self.layers * self.block_weights + 2 * self.vocabulary * self.width

    @property
    def outputs(self) -> float:
        """Numbers that updates move: rank times what the adapted layers give."""
        return self.rank * self.top_blocks * (5.0 * self.width + 2.0 * self.inner)

    @property
    def adapter(self) -> float:
        inputs = self.rank * self.top_blocks * (6.0 * self.width + self.inner)
        return inputs + self.outputs

    @property
    def trunk(self) -> float:
        return 2 * self.block_weights * (self.layers - self.top_blocks)

    @property
    def top(self) -> float:
        return 2 * self.block_weights * self.top_blocks

    @property
    def head(self) -> float:
        return 2.0 * self.vocabulary * self.width

    @property
    def trained(self) -> float:
        """FLOPs a token: backward through frozen layers once, adapters twice."""
        return self.trunk + 2 * self.top + 2 * self.head + 6 * self.adapter


def past_table(found: dict[str, Any], partition: dict[str, Any]) -> str:
    plan, job = Plan(), next(iter(found["jobs"].values()))
    peak, share = job["peak"]["flops"], job["share_of_arithmetic"]
    tokens = plan.sentences * plan.tokens * plan.epochs
    training = tokens * plan.trained
    answers = plan.teachers * plan.asked * plan.tokens * (plan.top + 2 * plan.adapter)
    updates = plan.rounds * plan.users * plan.rows * plan.trained
    rate = {name: plan.gpus * peak * part for name, part in share.items()}
    answer_sum, update_sum = 8 * plan.questions * (plan.candidates + 1), 8 * plan.outputs
    rows = partition.get("cases", {}).get("user", {}).get("rows_per_second")
    lines = [
        "| what | how it follows | amount |", "|---|---|---|",
        _row("parameters", "32 blocks of 4 d^2 + 3 d f, embedding and head", f"{plan.parameters / 1e9:.1f} billion"),
        _row("a trained token", "trunk + 2 top + 2 head + adapters", f"{plan.trained / 1e9:.1f} GFLOP, of which the "
             f"trunk {plan.trunk / plan.trained:.0%}"),
        _row("training, 3 epochs", f"{tokens / 1e9:.1f} billion tokens", f"{training:.2g} FLOP"),
        _row("on 64 GPUs", f"at {share['teachers']:.0%} of {peak / 1e12:.0f} TFLOP/s each",
             f"**{training / rate['teachers'] / 3600:.1f} hours**"),
        _row("the same with the trunk run once", "its output kept for all epochs",
             f"{tokens * (plan.trained - plan.trunk * (1 - 1 / plan.epochs)) / rate['teachers'] / 3600:.1f} hours"),
        _row("that cache", "2 d bytes a token, over all GPUs",
             f"{plan.sentences * plan.tokens * 2 * plan.width / 1e12:.0f} TB"),
        _row("answers of 20,000 teachers", f"1000 sentences each, at {share['answers']:.0%}",
             f"{answers / rate['answers'] / 60:.1f} minutes"),
        _row("60 rounds of updates", "100,000 users, 128 tokens each a round",
             f"{updates / rate['teachers'] / 60:.0f} minutes"),
        _row("memory, base", "bfloat16", f"{2 * plan.parameters / 2**30:.0f} GiB a GPU"),
        _row("memory, a block of 64 teachers", "adapter and two moments, float32",
             f"{12 * plan.block * plan.adapter / 2**30:.1f} GiB"),
        _row("adapters on disk", "20,000 teachers, float32", f"{4 * plan.teachers * plan.adapter / 1e9:.0f} GB"),
        _row("network, a round of answers", "int64 [questions, candidates + 1] from each of 64",
             f"{plan.gpus * answer_sum / 1e6:.0f} MB, {plan.gpus * answer_sum / plan.link:.1f} s at 10 Gbit/s"),
        _row("network, a round of updates", "int64 [numbers moved] from each of 64",
             f"{plan.gpus * update_sum / 1e6:.0f} MB, {plan.gpus * update_sum / plan.link:.1f} s at 10 Gbit/s"),
        _row("ledger", "one row a release, about 1 kB: a first row, 60 updates, one round of answers", "62 kB"),
        _row("answers kept in release/", "int64, as released",
             f"{(plan.rounds * update_sum + answer_sum) / 1e6:.0f} MB"),
    ]  # fmt: skip
    if rows:
        hours = plan.sentences / rows / 3600
        lines.append(_row("partition, one process", f"{rows:,} rows/s without tokenising (partition_memory.json)",
                          f"at least {hours * 60:.0f} minutes"))  # fmt: skip
    return "\n".join(lines)


def _row(what: str, how: str, amount: str) -> str:
    return f"| {what} | {how} | {amount} |"
