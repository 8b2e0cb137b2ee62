"""What the worker answers when it cannot do what it was asked to."""

from __future__ import annotations


class WorkerError(Exception):
    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
