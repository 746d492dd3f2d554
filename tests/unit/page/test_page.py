"""The page: what its sections say, and that no text of others becomes a part of it."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from messagestore.dead_letters import DeadLetter
from messagestore.leaving import Leaving, LeavingDay
from messagestore.overview import Reason
from messagestore_operator.api import Resource
from messagestore_operator.page import sections, words
from messagestore_operator.page.document import html
from messagestore_operator.page.forecast import Applied, applied, forecast
from messagestore_operator.page.parts import Section, StorePage
from support.pages import AT, DAY, HOSTILE, batch, overview, page_of, part, policy, stream


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def plain() -> str:
    """A page with names that are as many as the hostile ones."""
    return page_of(*(f"plain{number}" for number in range(len(HOSTILE))))


def test_hostile_names_are_text_on_the_page_and_no_part_of_it(plain: str) -> None:
    known, hostile = Tags(plain), Tags(page_of(*HOSTILE))

    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in known.tags]
    assert [list(attributes) for _, attributes in hostile.tags] == [list(attributes) for _, attributes in known.tags]
    for number, name in enumerate(HOSTILE):
        shown = re.sub(r"[\x00\x1b\u202e]", lambda match: match[0].encode("unicode_escape").decode(), name)
        assert hostile.text.count(shown) >= known.text.count(f"plain{number}"), name


def test_the_page_names_nothing_that_a_browser_would_load(plain: str) -> None:
    loaded = [
        value
        for tag, attributes in Tags(plain).tags
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href", "srcset", "data", "action") and tag != "a"
    ]

    assert [value for value in loaded if value and not value.startswith(("#", "data:,"))] == []
    assert "default-src 'none'" in plain
    assert re.findall(r"url\((?!#)|@import|<script", plain) == []


def test_names_within_the_page_are_given_once_and_each_is_there(plain: str) -> None:
    names = re.findall(r' id="([^"]*)"', plain)

    assert len(names) == len(set(names))
    assert set(re.findall(r'url\(#([^)]*)\)|href="#([^"]*)"', plain)) <= {(one, "") for one in names} | {
        ("", one) for one in names
    }


def test_each_picture_has_a_title_and_a_table(plain: str) -> None:
    assert len(re.findall('<svg role="img"', plain)) == len(re.findall(r"<svg [^>]*><title>[^<]+</title>", plain)) == 9
    assert len(re.findall("<summary>Table: ", plain)) == 10


def test_colours_of_pictures_are_those_of_the_page(plain: str) -> None:
    svg = "".join(re.findall("<svg.*?</svg>", plain, re.DOTALL))

    assert re.findall(r"#[0-9a-f]{6}", svg) == []
    assert "var(--series-0)" in svg
    assert "var(--ink)" in svg


def test_the_days_with_few_categories_have_all_of_them() -> None:
    by_day = sections.messages(overview(parts=(part(0), part(2, "cart", 5), part(2, messages=2)))).pictures[0]

    assert by_day.legend == ("cart", "order")
    assert by_day.table.rows == [("2026-04-01", "1", "0", "1"), ("2026-04-03", "7", "5", "2")]


def test_many_days_are_counted_by_month_and_many_categories_together() -> None:
    parts = tuple(part(day, f"c{day % 20}", messages=day % 20 + 1) for day in range(200))
    by_month = sections.messages(overview(parts=parts)).pictures[0]

    assert by_month.title == "Messages by month and category"
    assert [row[0] for row in by_month.table.rows] == [f"2026-{month:02}" for month in range(4, 11)]
    assert by_month.legend[-1] == sections.OTHERS
    assert len(by_month.legend) == 8
    assert sum(int(row[1]) for row in by_month.table.rows) == sum(one.messages for one in parts)


def test_the_share_of_each_status_is_told() -> None:
    status = sections.messages(overview(parts=(part(messages=3), part(status="FAILED")))).pictures[3]

    assert status.table.rows == [("RECEIVED", "3", "75.0 %"), ("FAILED", "1", "25.0 %")]


def test_a_store_without_anything_says_so() -> None:
    nothing = overview(parts=())
    made = [
        sections.messages(nothing),
        sections.sizes(nothing),
        sections.batches(nothing),
        sections.dead_letters((), (), payloads=False),
        forecast([], AT),
        sections.time_line([]),
    ]

    assert all(section.nothing and not section.pictures for section in made)
    assert "The store holds no messages." in html([StorePage("s", {}, made)], AT, "1")


def test_a_batch_whose_wait_is_not_known_is_in_the_table_alone() -> None:
    (picture,) = sections.batches(overview(batches=(batch(1, arrived_at=None, unread=7),))).pictures

    assert picture.svg is None
    assert picture.table.rows == [("2026-04-06 00:01:00", "1", "3", "2", "1", "?", "?", "7")]


def test_records_of_dead_letters_are_shown_only_when_asked_for() -> None:
    reasons = [Reason("Unparseable", 1, 0, AT, AT)]
    sample = DeadLetter(
        raw=b"secret",
        source={"uri": "file:///a", "offset": 0},
        reason="Unparseable",
        detail=None,
        failed_at=AT,
        redriven_at=None,
        redriven_by=None,
    )
    without, asked = (sections.dead_letters(reasons, [sample], payloads=asked) for asked in (False, True))

    assert "secret" not in str(without)
    assert asked.pictures[1].table.rows[0][-1] == "secret"


def test_policies_are_those_of_the_stream_by_name_or_by_labels() -> None:
    selecting = policy(streamRefs=[], streamSelector={"matchLabels": {"tier": "gold"}})

    assert [one.stream for one in applied([policy()], ("shop", "orders"))] == [None]
    assert applied([policy()], ("shop", "carts")) == applied([policy()], ("other", "orders")) == []
    assert applied([policy()], None) == []
    assert [one.policy for one in applied([stream(tier="gold"), selecting], ("shop", "orders"))] == [selecting]
    assert applied([stream(tier="tin"), selecting], ("shop", "orders")) == []


def test_a_policy_that_scrubs_removes_nothing() -> None:
    assert applied([policy(action="Scrub", scrub={"error": True})], ("shop", "orders")) == []


def test_a_page_gets_the_rules_and_holds_that_a_run_of_the_policy_gets() -> None:
    (one,) = applied([policy(), stream()], ("shop", "orders"))

    assert [(rule.name, rule.max_age) for rule in one.rules_and_holds.rules] == [("r", 9 * DAY)]
    assert [(hold.name, hold.match.categories) for hold in one.rules_and_holds.holds] == [("h", ("order",))]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"mode": "Enforce"}, "It removes them with its runs."),
        ({"mode": "Enforce", "approval": "Required"}, "Each removal waits for an approval."),
        ({}, "Its mode is DryRun: it only shows what it would remove."),
        ({"mode": "Enforce", "suspend": True}, "The policy is suspended: it removes nothing."),
    ],
)
def test_a_policy_says_whether_it_removes(spec: dict[str, object], said: str) -> None:
    told = Leaving((LeavingDay(0, 3, 100), LeavingDay(30, 1, 24)), 2, {}, ())
    (picture,) = _forecast(policy(**spec), told).pictures

    assert picture.words.startswith("4 messages with 124 B of payloads")
    assert picture.words.endswith(said)
    assert picture.table.rows == [("now", "3", "100", "100 B"), ("2026-05-06", "1", "24", "24 B")]


def test_a_forecast_names_rules_and_holds_that_only_a_run_can_judge() -> None:
    notes = _forecast(policy(), Leaving((), 0, {"cap": ("maxBytes",)}, ("large",))).notes

    assert notes == [
        "old: rule cap is not counted: only a run can judge maxBytes.",
        "old: what hold large keeps is counted: only a run can judge its match.",
        "old: holds are not known: give the MessageStream's manifest by --policies, too.",
    ]


def _forecast(one: Resource, told: Leaving) -> Section:
    (found,) = applied([one], ("shop", "orders"))
    assert isinstance(found, Applied)
    return forecast([(found, told)], AT)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "", "0"),
        (999, "", "999"),
        (1_250_000, "", "1.25 M"),
        (1536, "bytes", "1.5 KiB"),
        (0.25, "seconds", "250 ms"),
    ],
)
def test_numbers_have_few_digits(value: float, unit: str, shown: str) -> None:
    assert words.short_number(value, unit) == shown


def test_the_days_of_a_forecast_end_with_the_calendar() -> None:
    (one,) = applied([policy()], ("shop", "orders"))
    told = Leaving((LeavingDay(30, 1, 1),), 0, {}, ())

    (picture,) = forecast([(one, told)], datetime(9999, 12, 20, tzinfo=UTC)).pictures

    assert [row[0] for row in picture.table.rows] == ["9999-12-31"]
