"""The operator's own client for the tests' API server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from kubernetes.aio.client import Configuration

from messagestore_operator.kube.client import KubeClient, connect
from support.apiserver import TOKEN, ApiServer

T = TypeVar("T")


@asynccontextmanager
async def connected(server: ApiServer) -> AsyncIterator[KubeClient]:
    """A client with an administrator's rights and without a rate limit."""
    configuration = Configuration(host=f"https://127.0.0.1:{server.port}")
    configuration.ssl_ca_cert = str(server.certificate)
    configuration.api_key["BearerToken"] = f"Bearer {TOKEN}"
    async with connect(configuration) as client:
        yield client


def with_client(server: ApiServer, scenario: Callable[[KubeClient], Awaitable[T]]) -> T:
    """What a scenario with such a client returns."""

    async def run() -> T:
        async with connected(server) as client:
            return await scenario(client)

    return asyncio.run(run())
