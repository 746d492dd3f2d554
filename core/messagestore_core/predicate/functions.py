"""The functions a predicate may call, all pure and deterministic, and why others are refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from messagestore_core.predicate.columns import Kind


@dataclass(frozen=True)
class Parameter:
    """One parameter: its kinds, best first. With `choices` only these literals; with `column` only a plain column."""

    kinds: tuple[Kind, ...]
    choices: tuple[str, ...] | None = None
    column: bool = False


@dataclass(frozen=True)
class Function:
    """A Spark function. The last `optional` parameters may be absent; with `repeats` the last one may come again."""

    parameters: tuple[Parameter, ...]
    gives: Kind
    optional: int = 0
    repeats: bool = False


def _of(*kinds: Kind) -> Parameter:
    return Parameter(kinds)


_TEXT = _of(Kind.TEXT)
_NUMBER = _of(Kind.NUMBER)
_TIME = _of(Kind.TIMESTAMP, Kind.DATE)
_BYTES = _of(Kind.BINARY, Kind.TEXT)
_MAP = _of(Kind.MAP)
_LIST = _of(Kind.LIST)
_DIGITS = Parameter((Kind.NUMBER,), tuple(map(str, range(-18, 19))))
_BITS = Parameter((Kind.NUMBER,), ("224", "256", "384", "512"))
_UNITS = Parameter((Kind.TEXT,), ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"))

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        **dict.fromkeys(("lower", "upper"), Function((_TEXT,), Kind.TEXT)),
        **dict.fromkeys(
            ("length", "char_length", "octet_length"), Function((_of(Kind.TEXT, Kind.BINARY),), Kind.NUMBER)
        ),
        **dict.fromkeys(("trim", "ltrim", "rtrim"), Function((_TEXT,), Kind.TEXT)),
        **dict.fromkeys(("substring", "substr"), Function((_TEXT, _NUMBER, _NUMBER), Kind.TEXT, optional=1)),
        **dict.fromkeys(("left", "right"), Function((_TEXT, _NUMBER), Kind.TEXT)),
        "substring_index": Function((_TEXT, _TEXT, _NUMBER), Kind.TEXT),
        "instr": Function((_TEXT, _TEXT), Kind.NUMBER),
        "concat": Function((_TEXT,), Kind.TEXT, repeats=True),
        **dict.fromkeys(("startswith", "endswith", "contains"), Function((_TEXT, _TEXT), Kind.BOOLEAN)),
        "abs": Function((_NUMBER,), Kind.NUMBER),
        "round": Function((_NUMBER, _DIGITS), Kind.NUMBER, optional=1),
        **dict.fromkeys(("floor", "ceil", "sign"), Function((_NUMBER,), Kind.NUMBER)),
        **dict.fromkeys(
            (
                "year",
                "quarter",
                "month",
                "weekofyear",
                "day",
                "dayofmonth",
                "dayofweek",
                "dayofyear",
                "weekday",
            ),
            Function((_TIME,), Kind.NUMBER),
        ),
        # Spark throws for times at the very end of its range; no column of the store has such times.
        "date_trunc": Function((_UNITS, Parameter((Kind.TIMESTAMP,), column=True)), Kind.TIMESTAMP),
        "datediff": Function((_of(Kind.DATE, Kind.TIMESTAMP),) * 2, Kind.NUMBER),
        **dict.fromkeys(
            ("hour", "minute", "second", "unix_seconds", "unix_millis", "unix_micros"),
            Function((_of(Kind.TIMESTAMP),), Kind.NUMBER),
        ),
        "element_at": Function((_MAP, _TEXT), Kind.TEXT),
        "map_contains_key": Function((_MAP, _TEXT), Kind.BOOLEAN),
        **dict.fromkeys(("map_keys", "map_values"), Function((_MAP,), Kind.LIST)),
        "array_contains": Function((_LIST, _TEXT), Kind.BOOLEAN),
        "array_size": Function((_LIST,), Kind.NUMBER),
        **dict.fromkeys(("md5", "sha1"), Function((_BYTES,), Kind.TEXT)),
        "sha2": Function((_BYTES, _BITS), Kind.TEXT),
    }
)


def _because(why: str, names: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(names, why)


REFUSED: Mapping[str, str] = MappingProxyType(
    {
        **_because(
            "calls any Java method; a predicate runs no code of its own",
            ("reflect", "try_reflect", "java_method"),
        ),
        **_because(
            "reads the clock, so that the same message would be selected in one run and not in the next; "
            "ages belong into the resource's own fields (maxAge, expired, timeWindow)",
            (
                "current_timestamp",
                "current_date",
                "current_time",
                "curdate",
                "now",
                "localtimestamp",
                "localtime",
                "unix_timestamp",
                "to_unix_timestamp",
            ),
        ),
        **_because(
            "is not deterministic: the same message would be selected in one run and not in the next",
            (
                "rand",
                "randn",
                "random",
                "randstr",
                "uniform",
                "uuid",
                "shuffle",
                "monotonically_increasing_id",
                "spark_partition_id",
            ),
        ),
        **_because(
            "tells about the session and not about the message",
            (
                "current_user",
                "user",
                "session_user",
                "current_database",
                "current_schema",
                "current_catalog",
                "current_timezone",
                "version",
            ),
        ),
        **_because(
            "tells about a file and not about the message; source.uri is where it was read",
            ("input_file_name", "input_file_block_start", "input_file_block_length"),
        ),
        **_because(
            "is an aggregate or window function; a predicate sees one message",
            (
                "count",
                "count_if",
                "sum",
                "avg",
                "mean",
                "min",
                "max",
                "first",
                "last",
                "any_value",
                "collect_list",
                "collect_set",
                "approx_count_distinct",
                "row_number",
                "rank",
                "dense_rank",
                "lag",
                "lead",
                "ntile",
            ),
        ),
        **_because("makes the run fail", ("raise_error", "assert_true")),
        **_because(
            "rewrites numbers and takes what is no JSON; write json(payload, '$.path')",
            ("get_json_object", "from_json", "json_tuple", "variant_get", "try_variant_get", "parse_json"),
        ),
        **_because("is not a function here; write text RLIKE 'pattern'", ("regexp_like", "regexp", "rlike")),
        **_because(
            "takes a pattern that can throw; compare with times, or cut with date_trunc",
            ("date_format", "to_timestamp_ltz", "to_timestamp_ntz", "from_unixtime"),
        ),
        **_because(
            "is not a function here; write CAST(… AS type)",
            (
                "boolean",
                "tinyint",
                "smallint",
                "int",
                "bigint",
                "float",
                "double",
                "decimal",
                "string",
                "binary",
                "date",
                "timestamp",
            ),
        ),
        **_because("is not taken; write year(time), hour(time) and so on", ("extract", "date_part")),
    }
)
