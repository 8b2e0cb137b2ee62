"""Errors that travel: what an operation threw becomes a code, a message and a hint, as in the TypeScript."""

from __future__ import annotations

import traceback
from typing import Any


class WorkerError(Exception):
    """An error whose code the client knows. `str()` is the message; the hint says what the user can do."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are pickled by their args alone, and this one crosses ranks.
        return (WorkerError, (self.code, self.message, self.hint))

    def envelope(self) -> dict[str, Any]:
        body = {"code": self.code, "message": self.message}
        return body if self.hint is None else {**body, "hint": self.hint}


def is_out_of_memory(thrown: BaseException) -> bool:
    """CUDA's own class, Python's, or an allocator that throws a RuntimeError and says so."""
    if isinstance(thrown, MemoryError) or type(thrown).__name__ == "OutOfMemoryError":
        return True
    said = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(thrown, RuntimeError) and any(words in str(thrown) for words in said)


def is_fatal(thrown: BaseException) -> bool:
    """After a CUDA error other than a lack of memory the process can compute nothing more."""
    return not is_out_of_memory(thrown) and (type(thrown).__name__ == "AcceleratorError" or "CUDA error" in str(thrown))


def as_worker_error(thrown: BaseException, op: str, tokens: int | None = None, free: str | None = None) -> WorkerError:
    """`tokens`: how many the operation was given; `free`: what memory was left, in words."""
    if isinstance(thrown, WorkerError):
        return thrown
    if is_out_of_memory(thrown):
        size = "" if tokens is None else f" of {tokens} tokens"
        left = "" if free is None else f"; {free}"
        return WorkerError(
            "OUT_OF_MEMORY",
            f"{op}{size} does not fit in memory{left} ({last_line(thrown)}).",
            "Lower tokenBudget (tokens of one pass on one rank), the number of slots or passesInFlight, or turn recompute on.",
        )
    return WorkerError("ENGINE_FAILED", f"{op} failed in the worker: {last_line(thrown)}.")


def last_line(thrown: BaseException) -> str:
    """The last line of the traceback: the class and the first line of its message, cut where it is long."""
    lines = "".join(traceback.format_exception_only(type(thrown), thrown)).strip().splitlines()
    text = lines[0] if lines else type(thrown).__name__
    return text.rstrip(".") if len(text) <= 500 else text[:500] + "…"
