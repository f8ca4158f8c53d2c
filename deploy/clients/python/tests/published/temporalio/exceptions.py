from __future__ import annotations


class ApplicationError(Exception):
    def __init__(self, message: str, *, type: str | None = None, non_retryable: bool = False) -> None:
        super().__init__(message)
        self.type, self.non_retryable = type, non_retryable


class ActivityError(Exception):
    @property
    def cause(self) -> BaseException | None:
        return self.__cause__
