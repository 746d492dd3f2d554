"""Texts as long as there is room for them."""

LONGEST_MESSAGE = 1000
"""What a report has room for."""


def clipped(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """The text, or its beginning."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def one_line(text: str, longest: int) -> str:
    """The text on one line, or the beginning of that."""
    return clipped(" ".join(text.split()), longest)
