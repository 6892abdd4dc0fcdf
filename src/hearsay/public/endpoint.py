"""Texts from any OpenAI-compatible endpoint, at a pace, within a cost, and never paid twice.

Each answer goes to a file as soon as it is here, under the hash of its request, so a rerun asks only for what is
missing and a server that goes down loses nothing. Time-outs, refusals for pace (429), server errors (5xx), broken and
empty answers are tried again after growing pauses; anything else stops at once with its reason.
"""

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hearsay.config_augment import Endpoint as Settings
from hearsay.config_augment import Generator
from hearsay.errors import ModelError
from hearsay.public.generator import Progress, Request

MILLION = 1e6


class _TryAgain(Exception):
    """The reason, in words for a person."""


@dataclass
class Answers:
    """Answers on disk: one line each, appended; a line that a killed process left half-written is not counted."""

    path: Path
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            return
        content = self.path.read_text(encoding="utf-8", errors="replace")
        for line in content.splitlines():
            try:
                body = json.loads(line)
                self.known[body["key"]] = body
            except (ValueError, KeyError, TypeError):
                continue
        if content and not content.endswith("\n"):
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n")

    def put(self, key: str, body: dict[str, Any]) -> None:
        with self.lock, self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, **body}) + "\n")
            file.flush()
            os.fsync(file.fileno())
            self.known[key] = body


class Pace:
    """At most so many requests a minute, evenly spaced; `sleep` and `clock` are seams for tests."""

    def __init__(self, per_minute: int | None, sleep: Callable[[float], None], clock: Callable[[], float]) -> None:
        self.gap = 60 / per_minute if per_minute else 0.0
        self.sleep, self.clock = sleep, clock
        self.next = 0.0
        self.lock = threading.Lock()

    def wait(self) -> None:
        if not self.gap:
            return
        with self.lock:
            now = self.clock()
            turn = max(now, self.next)
            self.next = turn + self.gap
        self.sleep(max(0.0, turn - now))


class Endpoint:
    def __init__(
        self,
        settings: Generator,
        at: Settings,
        folder: Path,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.at, self.sleep = settings, at, sleep
        name = hashlib.sha256(f"{self.at.base_url} {settings.model}".encode()).hexdigest()[:16]
        self.answers = Answers(folder / f"responses-{name}.jsonl")
        self.pace = Pace(self.at.per_minute, sleep, clock)
        self.client = _client(at)
        self.stop = threading.Event()

    def write(self, asked: Sequence[Request], progress: Progress) -> list[str]:
        keys = [self._key(number, one) for number, one in enumerate(asked)]
        missing = [number for number, key in enumerate(keys) if key not in self.answers.known]
        progress(len(asked) - len(missing), len(asked))
        with ThreadPoolExecutor(self.at.concurrency) as pool:
            work = [pool.submit(self._one, keys, asked, number, progress) for number in missing]
            done, _ = wait(work, return_when=FIRST_EXCEPTION)
            failed = next((job.exception() for job in done if job.exception()), None)
            for job in work if failed is not None else []:
                job.cancel()
        if failed is not None:
            raise self._told(failed, keys)
        return [str(self.answers.known[key]["text"]) for key in keys]

    def _key(self, number: int, one: Request) -> str:
        """Everything that decides an answer, and its number: the same prompt twice is two texts."""
        settings = self.settings
        body = [number, one.prompt, one.opening, settings.tokens, settings.temperature, settings.top_p]
        return hashlib.sha256(json.dumps(body).encode()).hexdigest()

    def _one(self, keys: list[str], asked: Sequence[Request], number: int, progress: Progress) -> None:
        if self.stop.is_set():
            return
        try:
            self._check_cost(keys)
            body = self._patiently(asked[number])
        except ModelError:
            self.stop.set()  # here, before this thread begins another one
            raise
        self.answers.put(keys[number], body)
        progress(sum(key in self.answers.known for key in keys), len(keys))

    def _check_cost(self, keys: list[str]) -> None:
        most = self.at.most_cost
        if most is None:
            return
        spent = sum(self.answers.known[key]["cost"] for key in keys if key in self.answers.known)
        dearest = self.settings.tokens * self.at.price_out / MILLION * self.at.concurrency
        if spent + dearest > most:
            raise ModelError(
                f"the answers so far cost {spent:.4g} and the next could pass endpoint.most_cost ({most:g}); "
                "what was answered is kept: raise the limit, or lower generator.texts"
            )

    def _patiently(self, one: Request) -> dict[str, Any]:
        reason = ""
        for attempt in range(self.at.retries + 1):
            if attempt:
                self.sleep(self.at.pause * 2 ** (attempt - 1))
            self.pace.wait()
            try:
                return self._ask(one)
            except _TryAgain as error:
                reason = str(error)
            if self.stop.is_set():
                break
        raise ModelError(
            f"{self.at.base_url} did not give an answer in {self.at.retries + 1} tries (last: {reason}); what was "
            "answered is kept: when the server is up again, the same command continues"
        )

    def _ask(self, one: Request) -> dict[str, Any]:
        import openai

        content = one.prompt + (f"\n\nBegin with: {one.opening}" if one.opening else "")
        try:
            answer = self.client.chat.completions.create(
                model=self.settings.model,
                messages=[{"role": "user", "content": content}],
                max_tokens=self.settings.tokens,
                temperature=self.settings.temperature,
                top_p=self.settings.top_p,
            )
        except openai.APITimeoutError:
            raise _TryAgain("no answer in time") from None
        except openai.APIConnectionError as error:
            raise _TryAgain(f"no connection, {type(error.__cause__ or error).__name__}") from None
        except openai.APIStatusError as error:
            if error.status_code in (408, 409, 429) or error.status_code >= 500:
                raise _TryAgain(f"status {error.status_code}") from None
            raise ModelError(
                f"{self.at.base_url} refused: status {error.status_code}; check generator.model "
                f"({self.settings.model}) and the key in {self.at.key_variable}"
            ) from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError):
            raise _TryAgain("an answer that is not JSON of the protocol") from None
        return self._read(answer, one)

    def _read(self, answer: Any, one: Request) -> dict[str, Any]:
        try:
            text = answer.choices[0].message.content
            finished = answer.choices[0].finish_reason
        except (AttributeError, IndexError, TypeError):
            raise _TryAgain("an answer without choices") from None
        if not isinstance(text, str) or not text.strip():
            raise _TryAgain("an empty answer")
        text = _whole(text.strip()) if finished == "length" else text.strip()
        if one.opening and not text.startswith(one.opening):
            text = f"{one.opening} {text}"
        used = getattr(answer, "usage", None)
        tokens_in, tokens_out = (getattr(used, name, None) or 0 for name in ("prompt_tokens", "completion_tokens"))
        cost = (tokens_in * self.at.price_in + tokens_out * self.at.price_out) / MILLION
        return {"text": text, "cost": cost}

    def _told(self, failed: BaseException, keys: list[str]) -> BaseException:
        if not isinstance(failed, ModelError):
            return failed
        here = sum(key in self.answers.known for key in keys)
        return ModelError(f"{failed} ({here} of {len(keys)} texts are here)")


def _whole(text: str) -> str:
    """An answer that ran into the token limit ends in mid-sentence: back to the last full one, if there is one."""
    end = max(text.rfind(mark) for mark in ".!?")
    return text[: end + 1] if end > 0 else text


def _client(at: Settings) -> Any:
    try:
        import openai
    except ImportError:
        raise ModelError("backend endpoint needs the openai package; type: pip install 'hearsay[endpoint]'") from None
    key = os.environ.get(at.key_variable) or "none-needed"
    # Its own retries are off: ours also cover broken answers, and one place must know how long to wait.
    return openai.OpenAI(base_url=at.base_url, api_key=key, timeout=at.timeout, max_retries=0)
