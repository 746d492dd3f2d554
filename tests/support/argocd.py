"""Argo CD's health scripts, run as Argo CD runs them: Lua 5.1, few libraries, the resource as a global."""

from pathlib import Path
from typing import Any

from lupa.lua51 import LuaRuntime

FOLDER = Path(__file__).parents[2] / "examples" / "gitops" / "argocd"
STATUSES = ("Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown")
# Argo CD loads the libraries base, table and package, and an os that only has the time.
_ABSENT = ("string", "io", "math", "debug", "coroutine", "os", "python", "require", "dofile", "loadfile", "print")


def health(script: str, document: dict[str, Any]) -> tuple[str, str]:
    """The status and message that the script returns for the resource; raises if Argo CD would not accept them."""
    lua = LuaRuntime(register_eval=False, register_builtins=False, unpack_returned_tuples=True)
    for name in _ABSENT:
        lua.execute(f"{name} = nil")
    lua.globals().obj = _to_lua(lua, document)
    answer = lua.execute(script)
    found = dict(answer.items())
    assert set(found) <= {"status", "message"}, found
    assert found["status"] in STATUSES, found
    assert isinstance(found["message"], str), found
    return found["status"], found["message"]


def _to_lua(lua: LuaRuntime, value: Any) -> Any:
    """Argo CD's own conversion: all numbers become Lua's, nulls are dropped."""
    if isinstance(value, dict):
        return lua.table_from({key: _to_lua(lua, item) for key, item in value.items() if item is not None})
    if isinstance(value, list | tuple):
        return lua.table_from([_to_lua(lua, item) for item in value])
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
