from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional


@dataclass
class RetryPolicy:
    non_retryable_error_types: Optional[Sequence[str]] = None
