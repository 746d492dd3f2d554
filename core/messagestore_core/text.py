"""Texts for people: shortened to the room that there is, without what a terminal would interpret."""

import re
from collections.abc import Callable

LONGEST_MESSAGE = 1000
"""Characters that a report has room for."""


_REFUSAL = re.compile(r"KubernetesClientException: .*? Message: (.+?)\.? Received status: ")


def refusal_in(text: str) -> str | None:
    """The API server's own message, without what Spark's Kubernetes client adds around it; None: there is none."""
    refusal = _REFUSAL.search(text)
    return refusal[1] if refusal else None


def clipped(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Return the text, cut to ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def printable(text: str, keep: str = "", escape: Callable[[str], str] = _escaped) -> str:
    """Return the text with escapes for control characters, changes of direction and other characters without a glyph.

    Args:
        keep: such characters that stay, for example line breaks.
        escape: writes the escape of a character; JSON has others than Python and YAML.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else escape(c) for c in text)


def one_line(text: str, longest: int) -> str:
    """Return the text on one line, cut to ``longest`` characters."""
    return clipped(" ".join(text.split()), longest)


def camel(name: str) -> str:
    """Return a field's name in JSON and YAML: ``message_id`` is ``messageId``."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
