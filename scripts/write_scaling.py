"""Fills the tables of docs/scaling.md between their marks, and draws its figures, from the benchmarks' JSON files.

python scripts/write_scaling.py          # rewrites them; with --check it only says whether they are up to date

A benchmark that was not run yet leaves a sentence that says how to run it. No number there is typed by hand.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hearsay.report import look
from hearsay.report.look import ACCENT, INK, MUTED, SOFT, WARN
from past_machines import past_table

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGE, FIGURES = ROOT / "benchmarks" / "results", ROOT / "docs" / "scaling.md", ROOT / "docs" / "figures"


def main() -> None:
    text = filled(PAGE.read_text())
    if "--check" in sys.argv:
        if text != PAGE.read_text():
            sys.exit("docs/scaling.md is out of date; type: python scripts/write_scaling.py")
        return
    PAGE.write_text(text)
    FIGURES.mkdir(exist_ok=True)
    if (found := load("throughput")) is not None:
        look.write_svg(FIGURES / "throughput.svg", throughput_figure(found))
        look.write_svg(FIGURES / "linear.svg", linear_figure(found))


def filled(text: str) -> str:
    """The page with every table written anew."""
    for name, write in TABLES.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        table = write()
        text = mark.sub(lambda match, table=table: match[1] + table.rstrip() + "\n" + match[2], text)  # type: ignore[misc]
    return text


def load(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def measured_at(found: dict[str, Any]) -> str:
    """The commit; `requested_commit` where the machine had the files without their history and noted another."""
    return str(found.get("requested_commit") or found["machine"]["commit"])[:7]


def missing(name: str) -> str:
    return f"(not measured yet: `python benchmarks/{name}.py --out benchmarks/results/{name}.json`)"


def job_table() -> str:
    found = load("two_thousand")
    if found is None:
        return missing("two_thousand")
    jobs = found["jobs"]

    def row(label: str, value: Callable[[dict[str, Any]], str]) -> str:
        return f"| {label} | " + " | ".join(value(job) for job in jobs.values()) + " |"

    first = next(iter(jobs.values()))
    lines = [
        "| | " + " | ".join(f"{job['teachers']:,} teachers" for job in jobs.values()) + " |",
        "|---|" + "---|" * len(jobs),
        row("training, s", lambda job: f"{job['seconds']['teachers']:.1f}"),
        row("answers, s", lambda job: f"{job['seconds']['answers']:.1f}"),
        row("set-up, first step, noise, s", lambda job: f"{_rest(job):.1f}"),
        row("**in all, s** (limit)", lambda job: f"**{job['seconds']['total']:.0f}** ({job['limits']['seconds']:.0f})"),
        row("memory of the GPU, GiB (limit)", lambda job: f"{job['peak_gib']:.1f} ({job['limits']['gib']})"),
        row("trained tokens/s", lambda job: f"{job['trained_tokens_per_second']:,}"),
        row("asked teacher-tokens/s", lambda job: f"{job['asked_tokens_per_second']:,}"),
        row("teachers a launch", lambda job: f"{job['settings']['block']}"),
        row("peak, TFLOP/s", lambda job: f"{job['peak']['flops'] / 1e12:.0f}"),
        row("peak, TB/s", lambda job: f"{job['peak']['bytes'] / 1e12:.1f}"),
        row("share of arithmetic, training", lambda job: f"{job['share_of_arithmetic']['teachers']:.0%}"),
        row("share of arithmetic, answers", lambda job: f"{job['share_of_arithmetic']['answers']:.0%}"),
        row("training at least, by arithmetic, s", lambda job: f"{_least(job, 'share_of_arithmetic'):.0f}"),
        row("training at least, by memory traffic, s", lambda job: f"{_least(job, 'share_of_memory_traffic'):.0f}"), "",
        f"One {found['machine']['device']}. Its peak, in the same call, is that of one large bfloat16 product and of "
        f"one large copy. {first['sentences']:,} sentences, rank {first['settings']['rank']}, top "
        f"{first['settings']['top_blocks']} of 12 blocks, {first['questions']:,} questions, "
        f"{first['gflop_a_trained_token']:.3f} GFLOP, {first['bytes_a_trained_token'] / 1e6:.2f} MB a trained token. "
        f"Commits {', '.join(measured_at(found | job) for job in jobs.values())}.",
    ]  # fmt: skip
    return "\n".join(lines)


def _least(job: dict[str, Any], share: str) -> float:
    return float(job[share]["teachers"] * job["seconds"]["teachers"])


def _rest(job: dict[str, Any]) -> float:
    seconds = job["seconds"]
    return float(seconds["total"] - seconds["teachers"] - seconds["answers"])


def launch_table() -> str:
    found = load("launches")
    if found is None:
        return missing("launches")
    blocks = {name: body for name, body in found.items() if "teachers" in name}
    parts = ("trunk", "top", "head", "gradient", "adam")
    chunks = found["chunk_milliseconds"]
    aligned = min(value for name, value in chunks.items() if name != "unaligned")
    lines = [
        "| teachers a launch | " + " | ".join(f"{part}, ms" for part in parts) + " | tokens/s | first call, s |",
        "|---|" + "---|" * (len(parts) + 2),
        *(f"| {name} | " + " | ".join(f"{body[part]:.1f}" for part in parts)
          + f" | {body['tokens_per_second']:,.0f} | {body['first_seconds']:.1f} |" for name, body in blocks.items()),
        "",
        "`gradient` holds the three before it and the backward pass. The head for 32,768 positions took "
        f"{aligned:.1f} ms with the vocabulary rounded up to 50,304 tokens and {chunks['unaligned']:.1f} ms with "
        f"GPT-2's 50,257: {chunks['unaligned'] / aligned:.1f} times.",
    ]  # fmt: skip
    return "\n".join(lines)


def throughput_table() -> str:
    parts = [_throughput(found) for name in ("throughput", "throughput_cpu") if (found := load(name))]
    return "\n\n".join(parts) if parts else missing("throughput")


def _throughput(found: dict[str, Any]) -> str:
    others, ratios = found["other_ways"], found.get("ratios", {})
    lines = [
        f"{found['machine']['device']}, {found['machine']['threads']} threads, shape {found['settings']['shape']}, "
        f"commit {measured_at(found)}:", "",
        "| teachers | training, tokens/s | asking, teacher-tokens/s | GiB |", "|---|---|---|---|",
        *(f"| {int(m):,} stacked | {body['training']['tokens_per_second']:,} | "
          f"{body['asking']['tokens_per_second']:,} | {body['training']['peak_gib']:.1f} |"
          for m, body in found["against_teachers"].items()),
        f"| one adapter, the same tokens a step | {others['one_adapter']['tokens_per_second']:,} | | "
        f"{others['one_adapter']['peak_gib']:.1f} |",
        _alone(others["one_at_a_time"]),
        f"| torch.func.vmap, {others['vmap']['block']} teachers | {others['vmap']['tokens_per_second']:,} | | "
        f"{others['vmap']['peak_gib']:.1f} |", "",
    ]  # fmt: skip
    told = [f"- {name.replace('_', ' ')}: {value:g}" for name, value in ratios.items() if value is not None]
    return "\n".join([*lines, *told, *([f"- {found['note']}"] if "note" in found else [])])


def _alone(body: dict[str, Any]) -> str:
    return f"| one teacher at a time (PEFT, batch 8) | {body['tokens_per_second']:,} | | {body['peak_gib']:.1f} |"


def prediction_table() -> str:
    lines = [
        "| machine | run | predicted, s | measured, s | ratio | predicted, GiB | measured, GiB |",
        "|" + "---|" * 7,
    ]
    notes = []
    for name in ("prediction", "prediction_gpu"):
        found = load(name) or {}
        notes += ["", found["note"]] if "note" in found else []
        for which in ("demo", "teachers"):
            if which in found:
                told, true = found[which]["predicted"], found[which]["measured"]
                lines.append(
                    f"| {found['machine']['device']} | {which} | {told['seconds']:.0f} | {true['seconds']:.0f} | "
                    f"{found[which]['predicted_over_measured']:.2f} | {told['memory_gib']:.1f} | "
                    f"{true['memory_gib']:.1f} |"
                )
    return "\n".join(lines + notes) if len(lines) > 2 else missing("prediction")


def past() -> str:
    found = load("two_thousand")
    return missing("two_thousand") if found is None else past_table(found, load("partition_memory") or {})


def throughput_figure(found: dict[str, Any]) -> str:
    """Tokens a second against the number of teachers, beside the other ways."""
    counts = [int(m) for m in found["against_teachers"]]
    rates = [body["training"]["tokens_per_second"] for body in found["against_teachers"].values()]
    asked = [body["asking"]["tokens_per_second"] for body in found["against_teachers"].values()]
    names = {"one_adapter": "one adapter, same tokens", "one_at_a_time": "one at a time (PEFT)", "vmap": "vmap"}
    lines = {names[key]: body["tokens_per_second"] for key, body in found["other_ways"].items()
             if body["tokens_per_second"] is not None}  # fmt: skip
    values = [*rates, *asked, *lines.values()]
    with look.canvas(3.2) as (figure, axes):
        look.plain_log_axis(axes, min(counts) / 1.4, max(counts) * 1.4)
        look.plain_log_axis(axes, min(values) / 1.6, max(values) * 1.6, which="y")
        for name, value in lines.items():
            axes.axhline(value, color=WARN if "time" in name else MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            axes.annotate(name, (1, value), xycoords=("axes fraction", "data"), ha="right", xytext=(0, 3),
                          textcoords="offset points", fontsize=8, color=MUTED)  # fmt: skip
        axes.plot(counts, rates, "o-", color=ACCENT, markersize=6, label="stacked, training")
        axes.plot(counts, asked, "s-", color=INK, markersize=5, label="stacked, answering")
        axes.legend(frameon=False, fontsize=8.5, loc="upper left")
        axes.set_xlabel("teachers (logarithmic)")
        axes.set_ylabel("tokens a second (logarithmic)")
        return look.svg(figure, "throughput")


def linear_figure(found: dict[str, Any]) -> str:
    """Seconds against text, and against teachers at the same text, both relative to their first."""
    stages = found["stages"]
    rows = {int(n) / min(map(int, stages["seconds_by_rows"])): s for n, s in stages["seconds_by_rows"].items()}
    whole = {int(m): body["training"]["seconds"] for m, body in found["against_teachers"].items()
             if "seconds" in body["training"]}  # fmt: skip
    first = min(whole)
    flat = {m / first: seconds for m, seconds in whole.items()}
    with look.canvas(2.8) as (figure, axes):
        ends = [*rows, *flat]
        times = [s / rows[min(rows)] for s in rows.values()] + [s / flat[min(flat)] for s in flat.values()]
        look.plain_log_axis(axes, 0.9, max(ends) * 1.15)
        look.plain_log_axis(axes, min(0.8, min(times) / 1.1), max(*times, *rows) * 1.2, which="y")
        axes.plot(list(rows), list(rows), color=SOFT, linewidth=2.4, label="in proportion")
        axes.plot(list(rows), [s / rows[min(rows)] for s in rows.values()], "o", color=ACCENT,
                  label="times the text")  # fmt: skip
        axes.plot(list(flat), [s / flat[min(flat)] for s in flat.values()], "s-", color=INK,
                  label=f"times {first:,} teachers, the same text")  # fmt: skip
        axes.legend(frameon=False, fontsize=8.5, loc="upper left")
        axes.set_xlabel("how many times as much (logarithmic)")
        axes.set_ylabel("times the seconds")
        return look.svg(figure, "linear")


def memory_table() -> str:
    found = load("corpus_memory")
    if found is None:
        return missing("corpus_memory")
    size = found["size"]
    lines = [
        "| stage, in a process of its own | peak memory, GiB | after each quarter | core seconds |",
        "|---|---|---|---|",
    ]
    for stage, one in found["stages"].items():
        quarters = ", ".join(f"{value:.2f}" for value in one["after_each_quarter"])
        lines.append(f"| {stage} | {one['peak_rss_gib']:.2f} | {quarters} | {one['core_seconds']} |")
    verdict = "under" if found["ok"] else "NOT under"
    return "\n".join(lines) + (
        f"\n\n{size['rows']:,} rows of {size['users']:,} users, {size['teachers']:,} teachers in blocks of "
        f"{found['block']}, the embedded model: {verdict} the bound of {found['limit_gib']} GiB, on a machine of "
        f"{found['machine_gib']} GiB. Memory is that of one block at a time and does not grow with their number: "
        f"{size['blocks']} of {-(-size['teachers'] // found['block'])} blocks were trained and asked here, two were "
        f"packed for 3 epochs, and two asked all {size['questions']:,} questions (`{found['command']}`; core "
        f"seconds are those of a busy machine). Commit {found['commit'][:7]}.\n"
    )


TABLES: dict[str, Callable[[], str]] = {
    "memory-table": memory_table,
    "job-table": job_table,
    "launch-table": launch_table,
    "throughput-table": throughput_table,
    "prediction-table": prediction_table,
    "past-table": past,
}

if __name__ == "__main__":
    main()
