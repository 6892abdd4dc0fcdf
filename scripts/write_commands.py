"""Writes docs/commands.md: what `hearsay VERB --help` says, for every verb.

python scripts/write_commands.py          # rewrites it; --check says whether it is up to date (a test does)
"""

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "commands.md"
WIDTH = 100
ORDER = ("demo", "init", "doctor", "plan", "run", "generate", "evaluate", "audit", "report", "ui", "ledger", "forget")
HEAD = """# Commands

What `--help` says, verb by verb; written by `python scripts/write_commands.py`. Every verb has `--json`. Exit codes:
0 done, 1 something broke or an audit failed, 2 bad input, 3 a budget that does not allow it, 130 stopped by Ctrl-C, 143
by SIGTERM (the same command continues).
"""


def main() -> None:
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit("out of date: docs/commands.md; type: python scripts/write_commands.py")


def page() -> str:
    import typer.main

    from hearsay.cli.main import app

    top: Any = typer.main.get_command(app)
    verbs = sorted(top.commands, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    parts = [HEAD]
    for name in verbs:
        parts += [_section(top.commands[name], f"hearsay {name}")]
    return "\n".join(parts)


def _section(command: Any, called: str) -> str:
    text = f"## {called}\n\n```\n{_help(command, called)}\n```\n"
    for name in sorted(getattr(command, "commands", {})):
        text += f"\n```\n{_help(command.commands[name], f'{called} {name}')}\n```\n"
    return text


def _help(command: Any, called: str) -> str:
    context = command.make_context(called, [], resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH)
    lines = str(command.get_help(context)).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip()


if __name__ == "__main__":
    main()
