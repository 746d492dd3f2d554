"""Typed strings with limits: names, durations, quantities, times, addresses, cron expressions, time zones.

Each keeps the text as it was written, is checked once, and has its value as a property.
"""

import datetime as dt
import re
import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, ClassVar, Self

import isodate
from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from typing_extensions import override

from messagestore_core.contract.base import CheckedText
from messagestore_operator.api import rules
from messagestore_operator.api.rules import ValidationRule

MAX_NAME = 253
LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
TOPIC_PATTERN = r"^[A-Za-z0-9._-]+$"

Name = Annotated[str, Field(strict=True, max_length=MAX_NAME, pattern=NAME_PATTERN)]
Label = Annotated[str, Field(strict=True, max_length=63, pattern=LABEL_PATTERN)]
SecretKey = Annotated[str, Field(strict=True, max_length=MAX_NAME, pattern=r"^[-._a-zA-Z0-9]+$")]
HeaderName = Annotated[
    str,
    # Not one that says where a request ends, whom it is for, or what the event in it is.
    Field(
        strict=True, max_length=64, pattern="^([Aa]uthorization|[Xx]-[A-Za-z0-9-]+|[A-Za-z0-9-]+-([Kk]ey|[Tt]oken))$"
    ),
]
UserName = Annotated[str, Field(strict=True, min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]+$")]
OauthScope = Annotated[str, Field(strict=True, min_length=1, max_length=512, pattern=r"^[!#-\[\]-~]+( [!#-\[\]-~]+)*$")]
Topic = Annotated[str, Field(strict=True, max_length=249, pattern=TOPIC_PATTERN)]


class RuledText(CheckedText):
    """A string that the API server checks by rules too, beside its pattern."""

    schema_format: ClassVar[str | None] = None
    worded: ClassVar[bool] = False
    """Whether the API server says in words what it expects; otherwise it shows the pattern alone."""
    validations: ClassVar[tuple[ValidationRule, ...]] = ()

    def check_meaning(self) -> None:
        """Refuse a text that breaks a rule."""
        if broken := [rule.message for rule in self.validations if not rule.holds(self)]:
            raise PydanticCustomError("form", "; ".join(broken))

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = super().__get_pydantic_json_schema__(core, handler)
        if cls.schema_format:
            schema["format"] = cls.schema_format
        rules = [rule.to_schema() for rule in cls.validations]
        if cls.worded:
            escaped = cls.pattern.replace("\\", "\\\\").replace("'", "\\'")
            rules.insert(0, {"rule": f"self.matches('{escaped}')", "message": f"must be {cls.expected}"})
        return {**schema, "x-kubernetes-validations": rules} if rules else schema


# With this many digits no duration is longer than 700 years, so that no time before or after it is out of range.
_SECONDS = r"[0-9]{1,9}(\.[0-9]{1,6})?S"
_MINUTES = rf"([0-9]{{1,8}}M({_SECONDS})?|{_SECONDS})"
_CLOCK = rf"T([0-9]{{1,6}}H({_MINUTES})?|{_MINUTES})"


class Duration(RuledText):
    """An ISO 8601 duration in days or smaller units, longer than zero."""

    pattern = rf"^P([0-9]{{1,5}}D({_CLOCK})?|{_CLOCK})$"
    max_length = 48
    expected = (
        "an ISO 8601 duration in days or smaller units, such as P30D or PT5M (no months, no years, at most 99999 days)"
    )
    worded = True
    validations = (rules.LONGER_THAN_ZERO,)

    @property
    def timedelta(self) -> dt.timedelta:
        """The length of the duration."""
        parsed: dt.timedelta = isodate.parse_duration(self)
        return parsed


class NumberOrText(CheckedText):
    """A number that is a text where it is no whole one, as the API has no fractions."""

    max_number: ClassVar[int]

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Check the number; a whole one may be written without quotes."""
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        return super().parse(value)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": cls.pattern,
            "maxLength": cls.max_length,
            "minimum": 1,
            "maximum": cls.max_number,
        }


class Factor(NumberOrText):
    """A number by which something grows."""

    pattern = r"^(([1-9]|[1-5][0-9])(\.[0-9]{1,3})?|60)$"
    max_length = 6
    max_number = 60
    expected = 'a number from 1 to 60, in quotes if it has a fraction, such as 2 or "1.5"'

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse,
            # As people write it: a whole number without quotes.
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda factor: int(factor) if factor.isdigit() else str(factor)
            ),
        )


class Quantity(NumberOrText):
    """A size in bytes as a Kubernetes quantity; a plain number is a quantity too."""

    pattern = (
        r"^([1-9][0-9]{0,14}|[1-9][0-9]{0,8}(\.[0-9]{1,6})?(k|Ki|M|Mi|G|Gi)"
        r"|[1-9][0-9]{0,5}(\.[0-9]{1,6})?(T|Ti)|[1-9][0-9]{0,2}(\.[0-9]{1,6})?(P|Pi))$"
    )
    max_length = 20
    max_number = 10**15 - 1
    expected = "a size as a Kubernetes quantity, such as 512Mi or 1Gi, from one byte to 999Pi"

    @property
    def bytes(self) -> int:
        """The size in whole bytes."""
        # Not by the client's function, which brings the whole client along: a third of a second.
        number = self.rstrip("kKMGTPi")
        prefix, binary = self[len(number) : len(number) + 1].lower(), self.endswith("i")
        return int(Decimal(number) * (1024 if binary else 1000) ** " kmgtp".index(prefix or " "))


class Time(RuledText):
    """An instant in RFC 3339, in UTC."""

    pattern = (
        r"^[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
        r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?Z$"
    )
    max_length = 32
    schema_format = "date-time"
    expected = "a time in UTC by RFC 3339, such as 2026-01-05T08:00:00Z"

    def check_meaning(self) -> None:
        """Refuse days that the calendar doesn't have."""
        try:
            _ = self.datetime
        except ValueError:
            raise PydanticCustomError("form", "must be a day that exists") from None

    @property
    def datetime(self) -> dt.datetime:
        """The instant, to the microsecond."""
        return dt.datetime.fromisoformat(self)

    @classmethod
    def of(cls, moment: dt.datetime) -> Self:
        """The text of an instant, without a fraction if it is a whole second."""
        return cls.parse(moment.astimezone(dt.UTC).isoformat().removesuffix("+00:00") + "Z")


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
    expected = f"the URI of a folder, such as s3a://bucket/folder ({_KNOWN}), without credentials, spaces and wildcards"
    validations = (rules.NO_DOTS, rules.NO_ESCAPES)


class SourceUri(RuledText):
    """A folder that is read from; a whole bucket may be one."""

    pattern = rf"^({_ROOT})(/{_SEGMENT})*/?$"
    max_length = 1024
    expected = StoreUri.expected
    validations = (rules.NO_DOTS,)


_SIGN = r"([^][\\^$|(){}*+?\x00-\x1f\x7f]|\\([dDsSwW]|[!-/:-@[-`{-~])|\[\^?([^][\\]|\\([dDsSwW]|[!-/:-@[-`{-~]))+\])"
_PART = rf"({_SIGN}([*+?]\??|\{{[0-9]{{1,2}}(,([0-9]{{1,2}})?)?\}}\??)?|[\^$|]|\\b|\(\?:|\)([*+?]\??)?)"

_NO_GROUP = r"\\.|\[([^\]\\]|\\.)+\]|\(\?:"
_OTHER = r"[^\\(\[\x00-\x1f\x7f"


class GroupPattern(RuledText):
    """A regular expression with one group, of what RE2 and Python have alike."""

    pattern = rf"^({_OTHER}]|{_NO_GROUP})*\((({_OTHER}?]|{_NO_GROUP})({_OTHER}]|{_NO_GROUP})*)?$"
    max_length = 256
    expected = "a regular expression with exactly one group, such as tenant=([a-z]+)/"
    worded = True

    def check_meaning(self) -> None:
        """Refuse what RE2 reads otherwise than Python, and what is no expression."""
        _check_expression(self.replace("(", "(?:").replace("(?:?:", "(?:"))


class NamePattern(RuledText):
    """A regular expression for a whole name, of what RE2 and Python have alike."""

    pattern = r"^[^\x00-\x1f\x7f]+$"
    max_length = 256
    expected = "a regular expression without groups but (?:...), such as orders[.].*"
    worded = True

    def check_meaning(self) -> None:
        """Refuse what RE2 reads otherwise than Python, and what is no expression."""
        _check_expression(self)


_ONLY_JAVA = r"\\[pPQERXhHvVGzZkx0u]|&&|--|~~|\|\||\[\[|[*+?}]\+|\(\?[^:]"


class TopicPattern(NamePattern):
    """A regular expression of Java for the whole name of a topic."""

    max_length = 249
    expected = "a regular expression for the whole name of a topic, such as orders[.].*"

    @override
    def check_meaning(self) -> None:
        """Refuse what is no expression, where Python tells; else a run does."""
        if not re.search(_ONLY_JAVA, self):
            _compile(self)


def _check_expression(text: str) -> None:
    if not re.fullmatch(rf"({_PART})+", text):
        raise PydanticCustomError(
            "form",
            "must have no other signs than ., [a-z], \\d, \\w, \\s, \\b, ^, $, |, (?:...), *, +, ?, and {2,3} "
            "behind a character or a class; put a backslash before a sign that stands for itself",
        )
    _compile(text)


def _compile(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise PydanticCustomError("form", f"must be a regular expression: {error}") from None


class Glob(RuledText):
    """A pattern for paths of files below a folder."""

    pattern = r"^((\*\*|\*|\*?([^*/\x00-\x1f\x7f]\*?)+)/)*(\*\*|\*|\*?([^*/\x00-\x1f\x7f]\*?)+)$"
    max_length = 256
    worded = True
    expected = "a path below the folder, with * and ? for parts of a name and ** for any folders, such as **/*.json"
    validations = (rules.NO_DOTS,)


class Endpoint(CheckedText):
    """The address of a server with the S3 protocol."""

    pattern = rf"^https?://({_HOST}|\[[0-9A-Fa-f:]+\])(:[0-9]{{1,5}})?/?$"
    max_length = 512
    expected = "an http or https address without a path, such as http://s3.storage.svc:7070"


class HttpUrl(CheckedText):
    """The URL of an endpoint that takes events."""

    # No user name, and no fragment.
    pattern = (
        rf"^https?://({_HOST}|\[[0-9A-Fa-f:]+\])(:[0-9]{{1,5}})?(/[A-Za-z0-9._~%!$&'()*+,;=:@-]*)*"
        r"(\?[A-Za-z0-9._~%!$&'()*+,;=:@/?-]*)?$"
    )
    max_length = 2048
    expected = "an http or https URL without a user's name, such as https://events.example.org/orders"


class TokenEndpoint(CheckedText):
    """The URL of an OAuth server's token endpoint."""

    # No comma, which separates the URLs that Kafka's client may use, and no user name.
    pattern = rf"^https?://({_HOST}|\[[0-9A-Fa-f:]+\])(:[0-9]{{1,5}})?(/[A-Za-z0-9._~%!$&'()*+;=:@-]*)*$"
    max_length = 1024
    expected = "an http or https URL without a query, such as https://keycloak.auth.svc/realms/kafka/token"


class BootstrapServers(CheckedText):
    """Kafka brokers to ask first."""

    pattern = rf"^{_HOST}:[0-9]{{1,5}}(,{_HOST}:[0-9]{{1,5}})*$"
    max_length = 1024
    expected = "one or more host:port, separated by commas without spaces"


# No R and H: croniter replaces them by random values, different ones each time.
_CRON_VALUE = r"([0-9]{1,2}|[A-Za-z]{3}|[Ll][0-7]?)"
_CRON_ITEM = rf"(\*|{_CRON_VALUE}(-{_CRON_VALUE})?)(/[0-9]{{1,2}})?"
_CRON_FIELD = rf"{_CRON_ITEM}(,{_CRON_ITEM})*"
_CRON_FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of the month": "1 to 31, and L for the last",
    "month": "1 to 12, or jan to dec",
    "day of the week": "0 to 7, or sun to sat",
}


class Cron(RuledText):
    """A cron expression of five fields: minute, hour, day of month, month, day of week."""

    pattern = rf"^{_CRON_FIELD}( +{_CRON_FIELD}){{4}}$"
    max_length = 128
    worded = True
    expected = 'a cron expression of five fields, such as "0 3 * * *", with nothing at random (R, H)'

    def check_meaning(self) -> None:
        """Refuse values out of range, and dates that don't exist, such as the 30th of February."""
        if not _fires(self):
            raise PydanticCustomError("form", f"must be {self.expected}; {_why_never(self)}")


def _fires(expression: str) -> bool:
    # Imported late: few manifests have a cron expression, and commands read them.
    from croniter import CroniterError, croniter

    try:
        croniter(expression, dt.datetime(2000, 1, 1, tzinfo=dt.UTC)).get_next()
    except (CroniterError, ValueError, KeyError):
        return False
    return True


def _why_never(expression: str) -> str:
    for index, (value, (field, values)) in enumerate(zip(expression.split(), _CRON_FIELDS.items(), strict=True)):
        if not _fires(" ".join(value if at == index else "*" for at in range(len(_CRON_FIELDS)))):
            return f"{value} is no {field}, of which there are {values}"
    return "there is no such day, so it never fires"


class TimeZone(RuledText):
    """The name of a time zone in the IANA database."""

    pattern = r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"
    max_length = 64
    worded = True
    expected = "the name of a time zone, such as UTC or Europe/Vienna"

    def check_meaning(self) -> None:
        """Refuse names that the time zone database doesn't have."""
        if self not in _time_zones():
            raise PydanticCustomError("form", f"must be {self.expected}; there is none of this name")


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


@dataclass(frozen=True)
class UniqueNames:
    """The items of a list differ in one field; in Kubernetes terms the list is a map."""

    key: str = "name"

    def check(self, items: Sequence[Any]) -> Sequence[Any]:
        """Refuse an item that has the name of an earlier one."""
        names = [item.to_dict()[self.key] for item in items]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise PydanticCustomError(
                "repeated", f"each {self.key} may stand only once: {', '.join(map(str, repeated))}"
            )
        return items

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [self.key]}
