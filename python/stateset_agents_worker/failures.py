"""What a request is told when sampling failed under it."""

from __future__ import annotations

import sys
import traceback

import torch

from .errors import WorkerError


def as_worker_error(error: Exception, running: int) -> WorkerError:
    if isinstance(error, WorkerError):
        return error
    if isinstance(error, torch.OutOfMemoryError):
        free = ""
        if torch.cuda.is_available():
            free = f" {torch.cuda.mem_get_info()[0] / (1 << 30):.1f} GiB of the device were free."
            torch.cuda.empty_cache()
        return WorkerError(
            "OUT_OF_MEMORY",
            f"The device had no memory left while it sampled {running} replies.{free}",
            "Lower slots, or ask for fewer tokens.",
        )
    traceback.print_exception(error, file=sys.stderr)
    last = traceback.format_exception_only(error)[-1].strip()
    return WorkerError("ENGINE_FAILED", f"Sampling failed: {last}")
