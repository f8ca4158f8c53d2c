"""What people see of a text, as the service has it."""

import json
import pathlib

from spendgate.visible import printable, unseen

CASES = json.loads((pathlib.Path(__file__).parents[4] / "audit/spend/testdata/visible.json").read_text(encoding="utf-8"))


def test_what_shows_nothing_is_what_the_service_says() -> None:
    assert len(CASES) > 50
    for case in CASES:
        text = case["text"]
        assert [f"U+{ord(text[i]):04X}" for i in unseen(text)] == case["unseen"], ascii(text)
        shown = printable(text)
        assert not list(unseen(shown)), ascii(text)
        assert (shown != text) == (not text.isprintable() or bool(case["unseen"])), ascii(text)


def test_an_error_shows_all_of_what_it_quotes() -> None:
    assert printable('say "hi" \\ Zo\u00eb') == 'say "hi" \\ Zo\u00eb'
    assert printable('a\ufe0f"\\\x1b[2J\n') == '"a\\ufe0f\\"\\\\\\x1b[2J\\n"'
    assert printable("\ue000\u0301") == '"\\ue000\u0301"'
