"""Writes docs/claims.md: every claim of the papers, the command that shows it, their figure, ours, the verdict.

python scripts/write_claims.py          # rewrites it; --check says whether it is up to date (a test does)
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import claims as c
from claims import CLINIC, Claim, worse

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "claims.md"
SEQPATE = [
    Claim("table 1", "SeqPATE closes about half of the gap from public + pseudo text to private at epsilon 3",
            "0.55 (AirDialog), 0.44 (Europarl)", "table-1", c.gaps("table-1", "seqpate", 0.44),
            c.gaps("people", "seqpate", 0.44)),
    Claim("table 1", "SeqPATE beats DP-SGD with ghost clipping at epsilon 3, significantly",
            "ln ratio of DP-SGD +0.334, +0.053", "table-1", worse("table-1", "DP-SGD, ghost clipping", "seqpate"),
            worse("people", "ghost", "seqpate")),
    Claim("table 1", "... and with flat clipping (both by Opacus, tuned as docs/studies.md says)", "+0.741, +0.105",
            "table-1", worse("table-1", "DP-SGD", "seqpate"),
            worse("people", "DP-SGD", "seqpate")),
    Claim("(ours)", "... and our `updates`, a method of that kind", "", "table-1",
            worse("table-1", "updates", "seqpate"),
            worse("people", "updates", "seqpate")),
    Claim("table 1", "Pseudo text helps the public model", "ln ratio of public to public + pseudo +1.181, +0.235",
            "table-1", worse("table-1", "public", "public + pseudo"),
            worse("people", "public", "public + pseudo")),
    Claim("footnote 2", "Negative values after noise are extremely rare, as teachers are many", "extremely rare",
            "table-3", c.below_zero),
    Claim("table 3", "The parts in order of what their loss costs", "-pseudo loss < -Effi KD < -Gaussian < "
            "-Merge_P < -KL < -All", "table-3", c.ablation_order,
            partial(c.ablation_order, "people-parts")),
    Claim("table 3", "Votes in place of means hurt (-Merge_P)", "+0.402, +0.144", "table-3",
            worse("table-3", "-Merge_P", "seqpate"),
            worse("people-parts", "-Merge_P", "seqpate")),
    Claim("section 6.3", "... because teachers agree too little (so without any noise, too)", "stated", "table-3",
            worse("table-3", "no noise, -Merge_P", "no noise"),
            worse("people-parts", "no noise, -Merge_P", "no noise")),
    Claim("(ours)", "Without any noise, hard labels hurt (-KL)", "", "table-3",
            worse("table-3", "no noise, -KL", "no noise"),
            worse("people-parts", "no noise, -KL", "no noise")),
    Claim("table 3", "The likeliest token in place of the distribution hurts (-KL)", "+0.412, +0.160", "table-3",
            worse("table-3", "-KL", "seqpate"),
            worse("people-parts", "-KL", "seqpate")),
    Claim("table 3", "Asking everywhere hurts (-Effi KD)", "+0.158, +0.005", "table-3",
            worse("table-3", "-Effi KD", "seqpate"),
            worse("people-parts", "-Effi KD", "seqpate")),
    Claim("table 3", "Laplace noise hurts (-Gaussian)", "+0.176, +0.040", "table-3",
            worse("table-3", "-Gaussian", "seqpate"),
            worse("people-parts", "-Gaussian", "seqpate")),
    Claim("table 3", "Without all of these nothing is left (-All, close to PATE)", "+0.502, +0.231", "table-3",
            worse("table-3", "-All", "seqpate"),
            worse("people-parts", "-All", "seqpate")),
    Claim("table 4", "Top-p or 50 candidates are best, one is worst", "top-k 50, top-p, 100, 200, 10, 1", "table-4",
            c.best_filter, partial(c.best_filter, "people-parts", "seqpate")),
    Claim("table 4", "One candidate is worse than top-p", "+0.824, +0.286", "table-4",
            worse("table-4", "top-k 1", "top-p"),
            worse("people-parts", "top-k 1", "seqpate")),
    Claim("table 4", "10 candidates are worse than top-p", "+0.444, +0.058", "table-4",
            worse("table-4", "top-k 10", "top-p"),
            worse("people-parts", "top-k 10", "seqpate")),
    Claim("tables 7, 8", "2,000 teachers beat 200 (parliament: 900)", "+0.315, +0.018", "table-7",
            worse("table-7", "200 teachers", "2000 teachers")),
    Claim("tables 7, 8", "... and one", "+0.880, +0.203", "table-7", worse("table-7", "1 teacher", "2000 teachers")),
    Claim("(ours)", "2,000 teachers (parliament: 900) beat 200 where answers are roots (`hellinger`)", "", "table-7",
            worse("table-7", "200 teachers, hellinger", "2000 teachers, hellinger")),
    Claim("table 9", "SeqPATE needs the pseudo text", "+0.701", "table-9",
            worse("table-9", "seqpate, none", "seqpate")),
    Claim("table 9", "DP-SGD gains from it (tested on our `updates` instead)", "+0.076", "table-9",
            worse("table-9", "updates, none", "updates")),
    Claim("figure 2", "SeqPATE beats DP-SGD at epsilon 1 (by Opacus)", "curve", "recipes",
            worse("recipes", "DP-SGD at 1", "seqpate at 1")),
    Claim("figure 2", "... and loses to DP-SGD at epsilon 50 (tested on our `updates` instead, which lead "
            "everywhere)", "curve", "figure-2",
            worse("figure-2", "seqpate, 50", "updates, 50")),
    Claim("section 6.2", "Without noise SeqPATE is still weaker than the private model", "stated", "figure-2",
            worse("figure-2", "seqpate, no noise", "private")),
    Claim("table 6", "The largest epsilon of a phrase is 25.64 where the least is 2.85", "25.64", "table-6",
            c.phrase_most),
    Claim("tables 2, 6", "An average epsilon of 3 over phrases protects users", "average 3, most 25.64", "table-6",
            c.average_phrase),
    Claim("table 5", "Users spread over a few teachers are protected about as well (307 of 9,131 are)",
            "n times epsilon", "table-6", c.several_teachers),
    Claim("appendix L", "Epsilon above 5 lets an individual be identified with more than 99.33% confidence", "99.33%",
            "hearsay.accounting.gaussian", c.certainty),
    Claim("tables 11, 12", "A private student hardly writes users' names; a model trained on the text does",
            "0.21% beside 4.25%", "table-11", c.leaks("seqpate", "private")),
    Claim("(ours)", "... and neither does a student by updates", "", "table-11", c.leaks("updates", "private")),
    Claim("table 13", "A blacklist leaves what it does not list (here: half of the phrases listed)",
            "stated", "table-11", c.blacklisted),
]  # fmt: skip
SONG = [
    Claim("appendix D", "Sigma 6 makes the answers of the teachers epsilon 4, however many are asked", "epsilon 4",
            "hearsay.accounting.gaussian", c.uncounted),
    Claim("table 1", "The method beats public-only generation at epsilon 4 (F1)", "0.337 beside 0.280", "clinic",
            worse("clinic", "public only", "paper", "f1_macro", CLINIC)),
    Claim("table 1", "... and the model trained on the private text", "0.337 beside 0.240", "clinic",
            worse("clinic", "private", "paper", "f1_macro", CLINIC)),
    Claim("table 1", "... and DP-SGD on the private text", "0.337 beside 0.170", "clinic",
            worse("clinic", "DP-SGD", "paper", "f1_macro", CLINIC)),
    Claim("table 1", "... and a DP-SGD discriminator", "0.337 beside 0.277", "clinic",
            worse("clinic", "DP-SGD discriminator", "paper", "f1_macro", CLINIC)),
    Claim("table 2", "One teacher is much worse than 15", "0.213 beside 0.337", "clinic",
            worse("clinic", "paper, one teacher", "paper", "f1_macro", CLINIC)),
    Claim("table 2", "Laplace noise is worse", "0.263 beside 0.337", "clinic",
            worse("clinic", "paper, Laplace", "paper", "f1_macro", CLINIC)),
    Claim("table 2", "The tutor helps", "0.313 beside 0.337 without it", "clinic",
            worse("clinic", "paper, no tutor", "paper", "f1_macro", CLINIC)),
    Claim("figure 2", "Better than a DP-SGD discriminator at epsilon 0.5", "curve", "clinic-curve",
            worse("clinic-curve", "DP-SGD discriminator, 0.5", "paper, 0.5", "f1_macro", CLINIC)),
    Claim("figure 3", "The released discriminator tells private from generated text", "97.6% right", "clinic",
            c.discriminator),
    Claim("figure 4", "More teachers teach better (50 beside 15)", "curve", "clinic",
            worse("clinic", "paper", "paper, 50 teachers", "f1_macro", CLINIC)),
    Claim("figure 5", "At epsilon 0.4 the noisy label shares follow the true ones", "picture", "clinic", c.tutor),
    Claim("(ours)", "One vector sum at epsilon 1 beats the paper's votes at epsilon 4", "", "clinic",
            worse("clinic", "paper", "sums by label at 1", "f1_macro", CLINIC)),
]  # fmt: skip
HEAD = """# Claims

Every claim of the two papers that a reader may want to check: what the paper says, what we measure, and a verdict
that follows from the figures by a rule (`scripts/claims.py`). Perplexities of different corpora and models do not
compare, so differences are told as ln ratios of perplexity (F1: as differences): what the claim calls worse less what
it calls better, so that above zero favours the claim in perplexity and below zero in F1. Ours have the 95% t-interval
over seeds and the p-value of the paired test; the paper's two figures are AirDialog's and Europarl's. *Not clear*
means that the seeds at hand do not tell, not that there is nothing; nothing is corrected for the number of claims, so
among the {tests} tests of the column *ours* expect {chance} that are clear by chance. Of leaks a claim holds if the
one rate is below a fifth of the other, which counts ten leaks at least and is clearly above the public model's (a
list: if it leaves more than a quarter of ten leaks at least). The order of table 3 is opposite where a pair is
clearly reversed after Holm's correction. *No student moved* says that a difference is that of the starts. Where an
interval is wider than the paper's difference (parliament, wherever the paper's recipe is compared) the seeds at hand
could not have shown it. All are measured on few people's text ([studies](studies.md)); the column *everybody, made
anew* has the same claim on the text of everybody held out, from other runs with other noise and partition keys (`make
study NAME=people` and `NAME=people-parts`), where a difference is clear only if the interval over people is, too.
DP-SGD protects single samples in the paper, units (dialogues, speakers, customers) here. Of the second paper *notes*
are MTSamples with 12 or 39 labels (`studies/augment.py`), the clinic is simulated. Ours are other corpora, a smaller
model and other settings than the papers': *not reproduced* says that a claim did not carry over, not why. Written by
`python scripts/write_claims.py` from `studies/results/`. The commands want `DATA=… MODEL=…` for real text, or
`CORPUS=airline` (`airline-small` to see one work); tables are left in `runs/studies`. What was measured here is in
[studies](studies.md), the augmentation on real notes in [augmentation](augmentation.md).
"""


def main() -> None:
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit("out of date: docs/claims.md; type: python scripts/write_claims.py")


def page() -> str:
    tables = [_table("SeqPATE (Tian et al., NeurIPS 2022)", SEQPATE),
              _table("Augmentation with a tutor (Song et al., 2024)", SONG)]  # fmt: skip
    tests = sum(one.find().ours.count("(p ") for one in (*SEQPATE, *SONG))
    return "\n".join([HEAD.format(tests=tests, chance=round(tests / 20)), *tables])


def _table(title: str, listed: list[c.Claim]) -> str:
    anew = ["everybody, made anew"] if any(one.anew for one in listed) else []
    heads = ["where", "the claim", "the paper", "ours", "verdict", *anew, "shown by"]
    lines = [f"## {title}\n", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for one in listed:
        found = one.find()
        shown = f"`{one.study}`" if "." in one.study else f"`make study NAME={one.study}`"
        again = one.anew() if one.anew else None
        told = [f"**{_verdict(one, again)}**: {again.ours}" if again else ""] if anew else []
        parts = [one.source, one.says, one.paper, found.ours, f"**{_verdict(one, found)}**", *told, shown]
        lines.append("| " + " | ".join(part.replace("|", "/") for part in parts) + " |")
    return "\n".join(lines) + "\n"


def _verdict(one: Claim, found: c.Finding) -> str:
    """A claim of ours holds or does not; there is no paper to reproduce."""
    said = found.verdict
    return said.replace("not reproduced: ", "").replace("reproduced", "holds") if "ours" in one.source else said


if __name__ == "__main__":
    main()
