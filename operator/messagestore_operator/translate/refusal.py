"""The fields of a resource that are refused, and why."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RefusedField:
    """A field, by its path in the manifest, and why it is refused."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))}: {self.message}"


class NotSupportedError(ValueError):
    """A resource asks for something that this release doesn't support."""

    def __init__(self, refused: tuple[RefusedField, ...]) -> None:
        super().__init__("; ".join(map(str, refused)))
        self.refusals = refused
