"""Panels at once, a process each. They share nothing but folders that belong to one of them."""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

import torch

from hearsay.errors import HearsayError


def carry_out(work: Callable[..., None], todo: Sequence[tuple[Any, ...]], at_once: int) -> None:
    """One after the other, up to the first that fails; or several at once, where one that fails leaves the others
    alone: what failed is told then and at the end. A process that the system kills takes all that are left with it.
    """
    if at_once == 1:
        for one in todo:
            work(*one)
        return
    failed = 0
    with ProcessPoolExecutor(at_once, get_context("spawn"), initializer=_settle, initargs=(at_once,)) as crew:
        for future in as_completed([crew.submit(_alone, work, one) for one in todo]):
            if future.exception():
                failed += 1
                traceback.print_exception(future.exception(), file=sys.stderr)
    if failed:
        raise HearsayError(f"{failed} of {len(todo)} panels failed; the same command tries them again")


def _settle(at_once: int) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // at_once))


def _alone(work: Callable[..., None], one: tuple[Any, ...]) -> None:
    work(*one)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # for the others
