"""The address of the API server and the operator's credentials: a pod's service account, or a kubeconfig."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import kopf
from kubernetes.aio import config as official
from kubernetes.aio.client import Configuration


class ConnectionProblemError(Exception):
    """The API server can't be reached from here; the message says what to set."""


async def configuration() -> Configuration:
    """How to reach the API server.

    Raises:
        ConnectionProblemError: this is no pod, and there is no kubeconfig or it can't be read.
    """
    configuration = Configuration()
    # Its functions have no types.
    loader: Any = official
    # The client's own rate limits requests, not its number of connections.
    configuration.connection_pool_maxsize = 64
    try:
        if _has_kubeconfig():
            await loader.load_kube_config(client_configuration=configuration, persist_config=False)
        else:
            loader.load_incluster_config(client_configuration=configuration)
    except (official.ConfigException, OSError) as error:
        raise ConnectionProblemError(f"can't reach the API server: {error}; set KUBECONFIG, or run in a pod") from error
    # Otherwise the session would read the environment and .netrc for each request, in a thread.
    configuration.client_session_kwargs = {"trust_env": False}
    configuration.proxy = configuration.proxy or proxy_to(configuration.host)
    return configuration


def login(**arguments: object) -> kopf.ConnectionInfo | None:
    """The same for kopf's watches."""
    choose = kopf.login_with_kubeconfig if _has_kubeconfig() else kopf.login_with_service_account
    return choose(**arguments)  # type: ignore[arg-type]


def proxy_to(server: str) -> str | None:
    """The address of the environment's proxy for a server; None if there is none."""
    address = urlsplit(server)
    if proxy_bypass(address.hostname or ""):
        return None
    return getproxies().get(address.scheme)


def _has_kubeconfig() -> bool:
    return bool(os.environ.get("KUBECONFIG")) or Path("~/.kube/config").expanduser().exists()
