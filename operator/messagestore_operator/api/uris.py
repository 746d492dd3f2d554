"""Addresses of data: URIs of folders, an S3 endpoint, and Kafka's brokers."""

from __future__ import annotations

from messagestore_core.contract.base import CheckedText
from messagestore_operator.api import rules
from messagestore_operator.api.scalars import RuledText

_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
_BUCKET = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
# No user name or password fits before an @: only abfss allows an @, after the container's name.
_ROOT = rf"(s3a?|gs)://{_BUCKET}|hdfs://{_HOST}(:[0-9]{{1,5}})?|abfss://[a-z0-9]([a-z0-9-]{{0,61}}[a-z0-9])?@{_HOST}|file://"
# Hadoop reads these characters in a path as a pattern, an escape or the end of the path.
_SEGMENT = r"[^\x00-\x20\x7f/?#*{}\[\]\\<>^|\x22]+"
_KNOWN = "s3a, s3, gs, abfss, hdfs and file:///"


class StoreUri(RuledText):
    """A folder that is written to: a store's table, an archive, the destination of a replay."""

    pattern = rf"^({_ROOT})(/{_SEGMENT})+/?$"
    max_length = 1024
    expected = f"the URI of a folder, such as s3a://bucket/folder ({_KNOWN}), with no credentials and no wildcard in it"
    validations = (rules.NO_DOTS, rules.NO_ESCAPES)

    __slots__ = ()


class SourceUri(RuledText):
    """A folder that is read from; a whole bucket may be one."""

    pattern = rf"^({_ROOT})(/{_SEGMENT})*/?$"
    max_length = 1024
    expected = StoreUri.expected
    validations = (rules.NO_DOTS,)

    __slots__ = ()


class Endpoint(CheckedText):
    """The address of a server with the S3 protocol."""

    pattern = rf"^https?://({_HOST}|\[[0-9A-Fa-f:]+\])(:[0-9]{{1,5}})?/?$"
    max_length = 512
    expected = "an http or https address without a path, such as http://s3.storage.svc:7070"

    __slots__ = ()


class BootstrapServers(CheckedText):
    """Kafka brokers to ask first."""

    pattern = rf"^{_HOST}:[0-9]{{1,5}}(,{_HOST}:[0-9]{{1,5}})*$"
    max_length = 1024
    expected = "one or more host:port, separated by commas without spaces"

    __slots__ = ()
