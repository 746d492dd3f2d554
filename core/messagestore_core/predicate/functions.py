"""The functions that a predicate may call, all pure and deterministic, and why other names are refused.

A function that CloudEvents SQL has too has its name there. docs/filters.md lists them with examples.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from messagestore_core.predicate.columns import Kind

Kinds = tuple[Kind, ...]


@dataclass(frozen=True)
class Function:
    """The kinds of each argument, best first, and of the result.

    The last ``optional`` arguments may be absent; with ``repeats`` the last one may come again. A ``fallible`` function
    may give NULL for arguments that are not NULL.
    """

    arguments: tuple[Kinds, ...]
    gives: Kind
    optional: int = 0
    repeats: bool = False
    fallible: bool = False

    def takes(self, count: int) -> bool:
        """Whether it takes so many arguments."""
        return len(self.arguments) - self.optional <= count and (self.repeats or count <= len(self.arguments))


_TEXT, _NUMBER = (Kind.TEXT,), (Kind.NUMBER,)
_READ = (Kind.TEXT, Kind.NUMBER)

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        **dict.fromkeys(("lower", "upper", "trim"), Function((_TEXT,), Kind.TEXT)),
        "length": Function(((Kind.TEXT, Kind.BINARY),), Kind.NUMBER),
        "concat": Function((_TEXT,), Kind.TEXT, repeats=True),
        "substring": Function((_TEXT, _NUMBER, _NUMBER), Kind.TEXT, optional=1),
        **dict.fromkeys(("left", "right"), Function((_TEXT, _NUMBER), Kind.TEXT)),
        **dict.fromkeys(("startswith", "endswith", "contains"), Function((_TEXT, _TEXT), Kind.BOOLEAN)),
        **dict.fromkeys(("abs", "ceil", "floor", "round"), Function((_NUMBER,), Kind.NUMBER)),
        "int": Function((_READ,), Kind.NUMBER, fallible=True),
        "bool": Function((_READ,), Kind.BOOLEAN, fallible=True),
        "string": Function(((*_READ, Kind.TIMESTAMP, Kind.BINARY),), Kind.TEXT),
    }
)
"""Those that take arguments of given kinds. coalesce() and json() are checked by the parser."""
CASTS: Mapping[str, str] = MappingProxyType(
    {"int": "bigint", "bool": "boolean", "string": "string", "decimal": "decimal(38, 18)", "timestamp": "timestamp"}
)
"""What a function casts to. The last two have no name in a predicate: text becomes a number or a time by itself."""
NAMES = frozenset({*FUNCTIONS, "coalesce", "json"})

_WHY = {
    "is not taken; compare times: time >= '2026-01-05' AND time < '2026-01-06'": "year quarter month week weekofyear "
    "day dayofmonth dayofweek dayofyear weekday hour minute second extract date_part date_trunc trunc datediff "
    "date_add date_sub date_format date to_date to_timestamp to_timestamp_ltz to_timestamp_ntz from_unixtime "
    "unix_seconds unix_millis unix_micros",
    "is not taken; write int(x), bool(x) or string(x)": "cast try_cast boolean tinyint smallint bigint float double "
    "decimal binary ::",
    "is not taken; write LIKE with % and _, startswith(), endswith() or contains()": "rlike regexp regexp_like",
    "is not taken; write lower(text) LIKE 'pattern'": "ilike",
    "is not taken; write the conditions with AND, OR and NOT": "case if greatest least sign",
    "is not taken; write headers['name'], and headers['name'] IS NOT NULL": "element_at map_contains_key map_keys "
    "map_values array_contains array_size size",
    "is not taken; compare the column payload_sha256": "md5 sha1 sha2",
    "is not taken; write coalesce(a, b), or IS NULL": "ifnull nvl nullif",
    "is not taken; write a = b OR (a IS NULL AND b IS NULL)": "<=> distinct",
    "stands here for no value; after IS stands NULL, and a condition stands alone or behind NOT": "is true false",
    "is not taken; write + - * / % or floor()": "try_add try_subtract try_multiply try_divide try_mod div",
    "is not taken; write length(x)": "char_length octet_length",
    "is not taken; write contains(text, 'part')": "instr",
    "is not taken; write trim(x)": "ltrim rtrim",
    "is not taken; write substring(text, from, length)": "substr substring_index",
    "is not taken; write concat(a, b)": "||",
    "is not taken; write =": "==",
    "is not taken; write AND": "&&",
    "reads the clock, so that the same message would be selected in one run and not in the next; ages belong into the "
    "resource's own fields (maxAge, expired, timeWindow)": "current_timestamp current_date current_time curdate now "
    "localtimestamp localtime unix_timestamp to_unix_timestamp",
    "is not deterministic: the same message would be selected in one run and not in the next": "rand randn random "
    "randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id",
    "tells about the session and not about the message": "current_user user session_user current_database version "
    "current_schema current_catalog current_timezone",
    "tells about a file and not about the message; source.uri is where it was read": "input_file_name "
    "input_file_block_start input_file_block_length",
    "is an aggregate or window function; a predicate sees one message": "count count_if sum avg mean min max first "
    "last any_value collect_list collect_set approx_count_distinct row_number rank dense_rank lag lead ntile over",
    "is a subquery; a predicate sees one message and no table": "select exists any all with values table from lateral "
    "union",
    "calls any Java method; a predicate runs no code of its own": "reflect try_reflect java_method",
    "makes the run fail": "raise_error assert_true",
    "is not taken; JSON is read by json(payload, '$.path')": "get_json_object from_json json_tuple variant_get "
    "try_variant_get parse_json -> =>",
    "is not taken; write the value itself": ": ? @ $ {",
    "begins a comment; comments are not taken": "-- /* */",
    "ends a statement; a predicate is one expression and no statement": ";",
}
REFUSED: Mapping[str, str] = MappingProxyType({name: why for why, names in _WHY.items() for name in names.split()})
"""Why a word or sign is refused, and what to write in its place."""
