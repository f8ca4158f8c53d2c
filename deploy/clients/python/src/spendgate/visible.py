"""Which characters of a text show nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Of Default_Ignorable_Code_Point, noncharacters and blanks what unicodedata has in no category for it.
_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2065\u2800\u3164\ufdd0-\ufdef\ufe00-\ufe0f\uffa0\ufff0-\ufff8\ufffc\ufffe\uffff"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)


def unseen(text: str) -> Iterator[int]:
    """Yields where a character shows nothing, or only moves what is around it, as the service has it: a combining mark on nothing, too."""
    base = False
    for i, c in enumerate(text):
        category = unicodedata.category(c)
        hidden = category in ("Cc", "Cf", "Zl", "Zp") or _NOTHING.match(c) is not None or ord(c) & 0xFFFE == 0xFFFE
        mark = category[0] == "M"
        if hidden or mark and not base:
            yield i
        if c.isspace():
            base = False
        elif not mark and not hidden:
            base = True


def printable(text: str) -> str:
    """Quotes a text of others that has characters which show nothing or could control a terminal."""
    hidden = set(unseen(text))
    if not hidden and text.isprintable():
        return text
    plain = [ascii(c)[1:-1] if i in hidden or not c.isprintable() else "\\" + c if c in '"\\' else c for i, c in enumerate(text)]
    return '"' + "".join(plain) + '"'
