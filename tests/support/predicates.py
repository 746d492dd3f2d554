"""Predicates from a grammar that knows Spark: most are plausible, many contain what must never run."""

from dataclasses import dataclass
from random import Random

from support.sparksql import write_string

_TEXTS = (
    "a",
    "",
    "it's",
    "%a_",
    "2026-01-05",
    "2026-01-05T08:15:00Z",
    "$.a",
    "\\",
    '"',
    "`",
    "$",
    "${env:HOME}",
    "${spark.master}",
    "${system:user.dir}",
    "${hiveconf:x}",
    "$${x}",
    "@{x}",
    "{{x}}",
    "-- x",
    "/* x */",
    "/*+ BROADCAST(x) */",
    "') OR true --",
    "\\' OR reflect('a','b')",
    "\\u0024{spark.master}",
    "\\x24{spark.master}",
    "\\044{spark.master}",
    "; DROP TABLE x",
    "\u2019",
    "\u202e",
    "\U0001f600",
    "\n",
    ":x",
    "?",
)
_TEXT_COLUMNS = (
    "type",
    "TYPE",
    "`type`",
    "category",
    "status",
    "headers['x']",
    "headers['${x}']",
    "source.uri",
)
_NUMBER_COLUMNS = ("retries", "payload_size", "source.offset", "sequence_number", "global_position")
_TIME_COLUMNS = ("time", "inserted_at", "expires_at")
_COMPARISONS = ("=", "<>", "<", ">=", "<=", ">", "!=", "=")
_TEXT_FUNCTIONS = ("lower", "upper", "trim", "TRIM", "Lower")
_PATTERNS = ("a%", "%a%", "%a%b%_", "a\\\\%", "${env:HOME}%", "%")
_SMUGGLED = (
    "CASE WHEN true THEN 'a' END",
    "CAST(type AS INT)",
    "type RLIKE '(a+)+'",
    "type ILIKE 'a%'",
    "type <=> 'a'",
    "headers.x",
    "md5(type)",
    "`lower`(type)",
    "element_at(headers, 'x')",
    "date '2026-01-05'",
    "reflect('java.lang.System', 'getenv', 'HOME')",
    "java_method('java.lang.Runtime', 'getRuntime')",
    "try_reflect('a', 'b')",
    "(SELECT max(type) FROM x)",
    "(SELECT TRANSFORM (type) USING 'sh' AS (x) FROM x)",
    "EXISTS (SELECT 1)",
    "x@v1",
    "x VERSION AS OF 1",
    "x TIMESTAMP AS OF '2026-01-05'",
    "json.`s3a://b/k`",
    "IDENTIFIER('type')",
    "IDENTIFIER(:x)",
    "{fn now()}",
    ":x",
    "?",
    "${spark.master}",
    "'${env:HOME}'",
    '"${env:HOME}"',
    "r'${env:HOME}'",
    "U&'\\0024{x}'",
    "$$text$$",
    "\\u0024{spark.master}",
    "transform(map_keys(headers), x -> reflect('a', 'b'))",
    "aggregate(map_values(headers), '', (x, y) -> x || y)",
    "row_number() OVER (ORDER BY time)",
    "max(type) OVER ()",
    "count(*)",
    "type COLLATE UNICODE",
    "current_user()",
    "now()",
    "rand()",
    "input_file_name()",
    "raise_error('x')",
    "CAST(type AS INTERVAL)",
    "type::array<int>",
    "named_struct('a', type).a",
    "map('a', type)['a']",
    "array(type)[0]",
    "type |> WHERE true",
    "/*+ BROADCAST(x) */ type",
    "type /* x */",
    "type -- x\n",
    "type;",
    "messagestore.json_text(payload, '$')",
    "spark_catalog.default.f(1)",
    "system.builtin.reflect('a', 'b')",
    "${type}",
    "ai_query('x', 'y')",
    "read_files('/etc/passwd')",
    "X'${x}'",
    "DATE '${x}'",
    "INTERVAL '${x}' DAY",
)


@dataclass(frozen=True)
class Predicates:
    """A source of predicates, the same ones for the same seed."""

    chance: Random

    def one(self) -> str:
        """A predicate; it may be refused."""
        text = self._condition(self.chance.randint(0, 4))
        return self._broken(text) if self.chance.random() < 0.1 else text

    def _condition(self, depth: int) -> str:
        if depth == 0 or self.chance.random() < 0.3:
            return self._test(depth)
        match self.chance.randrange(5):
            case 0 | 1:
                word = self._of(("AND", "OR", "and", "Or"))
                return f"({self._condition(depth - 1)} {word} {self._condition(depth - 1)})"
            case 2:
                return f"NOT {self._condition(depth - 1)}"
            case 3:
                return f"({self._condition(depth - 1)}) IS {self._of(('NULL', 'NOT NULL'))}"
            case _:
                tests = self._condition(depth - 1), self._condition(depth - 1)
                return f"coalesce({tests[0]}, {tests[1]}) = {self._of(('true', 'FALSE'))}"

    def _test(self, depth: int) -> str:
        match self.chance.randrange(10):
            case 0 | 1 | 2:
                return f"{self._text(depth)} {self._of(_COMPARISONS)} {self._text(depth)}"
            case 3:
                return f"{self._number(depth)} {self._of(_COMPARISONS)} {self._number(depth)}"
            case 4:
                times = self._of(("'2026-01-05'", "timestamp '2026-01-05T08:15:00Z'", self._of(_TIME_COLUMNS)))
                moved = self._of(("", " + interval 1 day", " - INTERVAL '2' weeks"))
                return f"{self._of(_TIME_COLUMNS)}{moved} {self._of(('<', '>=', '='))} {times}"
            case 5:
                return f"{self._text(depth)} {self._of(('LIKE', 'NOT LIKE'))} '{self._of(_PATTERNS)}'"
            case 6:
                test = self._of(("startswith", "endswith", "contains"))
                return f"{test}({self._text(depth)}, {self._text(0)})"
            case 8:
                return f"bool({self._text(depth)})"
            case 7:
                return f"{self._text(depth)} IN ({self._literal()}, {self._literal()})"
            case _:
                return f"{self._number(depth)} BETWEEN {self._number(0)} AND {self._number(0)}"

    def _text(self, depth: int) -> str:
        if self.chance.random() < 0.04:
            return self._of(_SMUGGLED)
        if depth == 0 or self.chance.random() < 0.5:
            return self._literal() if self.chance.random() < 0.5 else self._of(_TEXT_COLUMNS)
        inner = self._text(depth - 1)
        forms = (
            f"{self._of(_TEXT_FUNCTIONS)}({inner})",
            f"concat({inner}, {self._text(depth - 1)})",
            f"{self._of(('left', 'right'))}({inner}, {self._number(0)})",
            f"coalesce({inner}, {self._literal()})",
            f"substring({inner}, 1, {self._number(0)})",
            f"json(payload, {self._of(('$.a', '$', '$[0].b', '$.a-b'))!r})",
            f"json(metadata, '$[\\'{self._of(('x', '${x}', 'it s'))}\\']')",
            f"string({self._number(depth - 1)})",
            f"headers[{self._literal()}]",
        )
        return self._of(forms)

    def _number(self, depth: int) -> str:
        if depth == 0 or self.chance.random() < 0.4:
            return self._of((*_NUMBER_COLUMNS, "1", "-1", "1.5", "1e3", "0"))
        match self.chance.randrange(5):
            case 0 | 1:
                return f"({self._number(depth - 1)} {self._of('+-*/%')} {self._number(depth - 1)})"
            case 2:
                return f"length({self._text(depth - 1)})"
            case 3:
                return f"{self._of(('abs', 'round', 'floor', 'ceil'))}({self._number(depth - 1)})"
            case _:
                return f"int({self._text(depth - 1)})"

    def _literal(self) -> str:
        text = self._of(_TEXTS)
        match self.chance.randrange(5):
            case 0:
                return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
            case 1:
                return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
            case 2:
                return f"'{text.replace(chr(39), '')}'"
            case 3:
                return "'" + "".join(f"\\u{ord(c):04x}" for c in text if ord(c) < 0x10000) + "'"
            case _:
                return write_string(text)

    def _broken(self, text: str) -> str:
        """The text with something inserted or removed anywhere."""
        place = self.chance.randrange(len(text) + 1)
        end = place + self.chance.choice((0, 0, 1, 3))
        return text[:place] + self._of((*_SMUGGLED, *_TEXTS, "'", "(", ")", " ", "::", "[", "]", "->")) + text[end:]

    def _of(self, choices: tuple[str, ...] | str) -> str:
        return self.chance.choice(choices)
