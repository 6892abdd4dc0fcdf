"""All findings of an audit as one JSON body: internal/audit.json, and what `--json` prints (docs/audits.md)."""

import json
from pathlib import Path
from typing import Any

from hearsay.audit.scene import Result
from hearsay.audit.statistics import Promise

FILE = "audit.json"
REFERENCE = (
    "not_private is one adapter that was trained for several epochs on the rows of a few of the members, to show that "
    "the attacks can see; control is the public base model"
)


def to_json(found: Result, promise: Promise | None, target: str) -> dict[str, Any]:
    """The target's figures stand at the top of each attack; the same attack's on other models beside them."""
    attacks = {}
    for name, roles in found.items():
        own = roles.get("target")
        rest = {role: finding.to_json() for role, finding in roles.items() if role != "target"}
        attacks[name] = {**(own.to_json() if own else {"ok": True, "look": False}), **rest}
    return verdict(
        {
            "target": target,
            "epsilon_claimed": promise.epsilon if promise else None,
            "delta": promise.delta if promise else None,
            "auc_allowed": promise.highest_auc if promise else None,
            "reference": REFERENCE,
            "attacks": attacks,
        }
    )


def together(path: Path, body: dict[str, Any]) -> dict[str, Any]:
    """With what other attacks found on the same promise before: the canary twin is not repeated with every audit."""
    old = json.loads(path.read_text()) if path.exists() else {}
    if old.get("epsilon_claimed") != body["epsilon_claimed"]:
        return body
    return verdict({**body, "attacks": {**old.get("attacks", {}), **body["attacks"]}})


def verdict(body: dict[str, Any]) -> dict[str, Any]:
    attacks = body["attacks"]
    look = [name for name, found in attacks.items() if found["look"]]
    return {**body, "look": look, "ok": all(found["ok"] for found in attacks.values())}
