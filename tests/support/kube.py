"""The operator's own client for the tests' API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubernetes.aio.client import Configuration

from messagestore_operator.kube.client import KubeClient, connect
from support.apiserver import TOKEN, ApiServer


@asynccontextmanager
async def connected(server: ApiServer) -> AsyncIterator[KubeClient]:
    """A client with an administrator's rights and without a rate limit."""
    configuration = Configuration(host=f"https://127.0.0.1:{server.port}")
    configuration.ssl_ca_cert = str(server.certificate)
    configuration.api_key["BearerToken"] = f"Bearer {TOKEN}"
    async with connect(configuration) as client:
        yield client
