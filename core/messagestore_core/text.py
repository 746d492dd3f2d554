"""Texts for people: shortened to the room that there is, without what a terminal would interpret."""

LONGEST_MESSAGE = 1000
"""Characters that a report has room for."""


def clipped(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Return the text, cut to ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def printable(text: str, keep: str = "") -> str:
    """Return the text with escapes for control characters, changes of direction and other characters without a glyph.

    Args:
        keep: such characters that stay, for example line breaks.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str, longest: int) -> str:
    """Return the text on one line, cut to ``longest`` characters."""
    return clipped(" ".join(text.split()), longest)
