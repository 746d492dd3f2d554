"""Shorten texts to the room that there is for them."""

LONGEST_MESSAGE = 1000
"""Characters that a report has room for."""


def clipped(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Return the text, cut to ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def one_line(text: str, longest: int) -> str:
    """Return the text on one line, cut to ``longest`` characters."""
    return clipped(" ".join(text.split()), longest)
