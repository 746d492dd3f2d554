"""An operator whose clock is wrong: ``python -m support.wrongclock SECONDS operator …`` is ``messagestore operator …``.

Only the operator's modules see the other time: certificates stay valid, and event loops keep their clock.
"""

import importlib
import sys
from datetime import datetime, timedelta, tzinfo
from typing import Any

from messagestore_operator.__main__ import main


class _Kind(type):
    """Makes isinstance accept the original class's times."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, datetime)


def _shifted(seconds: float) -> type:
    class Shifted(datetime, metaclass=_Kind):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=seconds)

        @classmethod
        def fromisoformat(cls, text: str) -> datetime:
            return datetime.fromisoformat(text)

    return Shifted


if __name__ == "__main__":
    # The command imports these when it runs, and would find the right time in them otherwise.
    for late in ("messagestore_operator.decide.decision", "messagestore_operator.service"):
        importlib.import_module(late)
    wrong = _shifted(float(sys.argv.pop(1)))
    for name, module in list(sys.modules.items()):
        if name.startswith("messagestore_operator.") and getattr(module, "datetime", None) is datetime:
            module.datetime = wrong
    main()
