"""Validation rules of a ReplayJob: its selection, its destinations and its start."""

import re
from collections.abc import Callable
from typing import Any

from messagestore_operator.api.rules import (
    TransitionRule,
    ValidationRule,
    at_least_one,
    at_most_one,
    count_given,
    exactly_one,
)

TIME_WINDOW = ValidationRule(
    message="from must be earlier than to",
    cel="!has(self.from) || !has(self.to) || self.from < self.to",
    holds=lambda window: window.from_ is None or window.to is None or window.from_.datetime < window.to.datetime,
)
POSITIONS = ValidationRule(
    message="from must not be greater than to",
    cel="!has(self.from) || !has(self.to) || self.from <= self.to",
    holds=lambda span: span.from_ is None or span.to is None or span.from_ <= span.to,
)
SELECT = ValidationRule(
    message="positions needs streamNames: each stream counts its own",
    cel="!has(self.positions) || self.streamNames.size() > 0",
    holds=lambda select: select.positions is None or len(select.stream_names) > 0,
)
TOPIC_FROM = ValidationRule(
    message="give exactly one of header and replyTo",
    cel="has(self.header) != self.replyTo",
    holds=lambda named: (named.header is not None) != named.reply_to,
)
KAFKA_TO = (
    at_least_one("topic", "topicFrom"),
    at_most_one("topic", "topicFrom"),
)
DESTINATION = (
    exactly_one("files", "kafka", "http", "stream"),
    ValidationRule(
        message="an endpoint takes CloudEvents: with http leave envelope out, or set CloudEvents or CloudEventsBinary",
        cel="!has(self.http) || self.envelope in ['Native', 'CloudEvents', 'CloudEventsBinary']",
        holds=lambda to: to.http is None or to.envelope in ("Native", "CloudEvents", "CloudEventsBinary"),
    ),
    ValidationRule(
        message="envelope CloudEventsBinary and Original go with kafka: files have no headers; set another",
        cel="!(self.envelope in ['CloudEventsBinary', 'Original']) || !has(self.files)",
        holds=lambda to: to.envelope not in ("CloudEventsBinary", "Original") or to.files is None,
    ),
    ValidationRule(
        message="a topic is made as it was for records as they came: with kafka.createTopic, set envelope Original",
        cel="!has(self.kafka) || !self.kafka.createTopic || self.envelope == 'Original'",
        holds=lambda to: to.kafka is None or not to.kafka.create_topic or to.envelope == "Original",
    ),
    ValidationRule(
        message="a record as it came goes to the partition that it came from: with envelope Original, give kafka.topic",
        cel="self.envelope != 'Original' || !has(self.kafka) || has(self.kafka.topic)",
        holds=lambda to: to.envelope != "Original" or to.kafka is None or to.kafka.topic is not None,
    ),
    ValidationRule(
        message="a stream takes Native records: leave envelope out",
        cel="self.envelope == 'Native' || !has(self.stream)",
        holds=lambda to: to.envelope == "Native" or to.stream is None,
    ),
)


def _same_place(to: str, old: str) -> str:
    """Whether a destination is the one that it was, but for a topic's key and how it is reached."""
    return (
        f"{to}.envelope == {old}.envelope"
        f" && has({to}.files) == has({old}.files)"
        f" && has({to}.kafka) == has({old}.kafka)"
        f" && (!has({to}.files) || {to}.files.uri == {old}.files.uri && {to}.files.format == {old}.files.format)"
        f" && (!has({to}.kafka) || has({to}.kafka.topic) == has({old}.kafka.topic)"
        f" && (!has({to}.kafka.topic) || {to}.kafka.topic == {old}.kafka.topic))"
        f" && has({to}.http) == has({old}.http)"
        f" && (!has({to}.http) || {to}.http.url == {old}.http.url)"
        f" && (!has({to}.stream) || {to}.stream == {old}.stream)"
    )


SENT_TO = TransitionRule(
    message="destination can't be changed: make a new resource instead; with start, only a topic's key and how it is "
    "reached",
    cel=(
        "has(self.destination) == has(oldSelf.destination) && (!has(self.destination)"
        " || self.destination == oldSelf.destination"
        f" || has(self.start) && {_same_place('self.destination', 'oldSelf.destination')})"
    ),
)
ROUTE_SENT_TO = TransitionRule(
    message="the place of a destination can't be changed: take a new name, or change only a topic's key and how it is "
    "reached",
    cel=_same_place("self", "oldSelf"),
)
ADDED = TransitionRule(
    message="destinations can't be changed so: one that is added needs its own start, as spec.start was the others'",
    cel="self.destinations.all(to, has(to.start) || oldSelf.destinations.exists(old, old.name == to.name))",
)
ROUTE = ValidationRule(
    message="give where or otherwise, not both: otherwise is what no other's where matches",
    cel="self.where == '' || !self.otherwise",
    holds=lambda to: to.where == "" or not to.otherwise,
)
HTTP = ValidationRule(
    message="headerSecretRef goes with an https URL: http would send its value without TLS",
    cel="!has(self.headerSecretRef) || self.url.startsWith('https:')",
    holds=lambda http: http.header_secret_ref is None or http.url.startswith("https:"),
)
START = (
    at_least_one("at", "globalPosition", "insertedAt"),
    at_most_one("at", "globalPosition", "insertedAt"),
)
_ONLY_ATTRIBUTES = (
    "!self.select.dueForRetry && (!has(self.mark) || self.mark.headers.all(name, name.matches('^[a-z0-9]+$')))"
)
"""Whether nothing is marked that no attribute of an event can say; see ``_has_only_attributes``."""
_COMPLETE = "(has(self.select.sequences) && self.select.sequences.completeOnly)"
SEQUENCES = ValidationRule(
    message="orOverdue needs completeOnly: without it all sequences are selected",
    cel="!self.orOverdue || self.completeOnly",
    holds=lambda sequences: not sequences.or_overdue or sequences.complete_only,
)
REPLAY_TRIGGER = exactly_one("interval", "schedule", "continuous", "manual")


def _of_each(message: str, cel: Callable[[str], str], holds: Callable[[Any, Any], bool]) -> ValidationRule:
    """A condition on each destination of a replay, by its name in CEL; Python's gets the spec and a destination."""
    one, several = cel("self.destination"), cel("to")
    return ValidationRule(
        message=message,
        cel=f"(!has(self.destination) || ({one})) && self.destinations.all(to, {several})",
        holds=lambda spec: all(holds(spec, to) for to in _destinations_of(spec)),
    )


def _destinations_of(spec: Any) -> list[Any]:
    return [*([spec.destination] if spec.destination is not None else []), *spec.destinations]


DESTINATIONS = (
    ValidationRule(
        message="give exactly one of destination and destinations",
        cel="has(self.destination) != (self.destinations.size() > 0)",
        holds=lambda spec: (spec.destination is not None) != (len(spec.destinations) > 0),
    ),
    ValidationRule(
        message="destinations needs start and trigger: each of them has a cursor; to send once, give destination",
        cel="self.destinations.size() == 0 || has(self.start)",
        holds=lambda spec: len(spec.destinations) == 0 or spec.start is not None,
    ),
    ValidationRule(
        message="one of destinations may be a stream, as a run has the right to write one table",
        cel="self.destinations.filter(to, has(to.stream)).size() <= 1",
        holds=lambda spec: sum(to.stream is not None for to in spec.destinations) <= 1,
    ),
    ValidationRule(
        message="one of destinations may have otherwise, and another needs where: otherwise is what none matches",
        cel=(
            "self.destinations.filter(to, to.otherwise).size() <= 1"
            " && (!self.destinations.exists(to, to.otherwise) || self.destinations.exists(to, to.where != ''))"
        ),
        holds=lambda spec: (
            (count := sum(to.otherwise for to in spec.destinations)) <= 1
            and (count == 0 or any(to.where != "" for to in spec.destinations))
        ),
    ),
)
REPLAY = (
    *DESTINATIONS,
    _of_each(
        message="an endpoint gets attributes of events alone: with destination.http, select.dueForRetry is left out, "
        "and mark.headers has names of small letters and digits",
        cel=lambda to: f"!has({to}.http) || {_ONLY_ATTRIBUTES}",
        holds=lambda spec, to: to.http is None or _has_only_attributes(spec),
    ),
    _of_each(
        message="destination.http takes events of messages: dead letters are none, so set origin Messages",
        cel=lambda to: f"self.origin == 'Messages' || !has({to}.http)",
        holds=lambda spec, to: spec.origin == "Messages" or to.http is None,
    ),
    ValidationRule(
        message="select.reasons needs origin DeadLetters: messages have none",
        cel="self.origin == 'DeadLetters' || self.select.reasons.size() == 0",
        holds=lambda spec: spec.origin == "DeadLetters" or len(spec.select.reasons) == 0,
    ),
    _of_each(
        message="destination.stream must be another one than streamRef, unless origin is DeadLetters",
        cel=lambda to: f"self.origin == 'DeadLetters' || !has({to}.stream) || {to}.stream.name != self.streamRef.name",
        holds=lambda spec, to: (
            spec.origin == "DeadLetters" or to.stream is None or to.stream.name != spec.stream_ref.name
        ),
    ),
    _of_each(
        message="dead letters name no topic: with destination.kafka.topicFrom, set origin Messages",
        cel=lambda to: f"self.origin == 'Messages' || !has({to}.kafka) || has({to}.kafka.topic)",
        holds=lambda spec, to: spec.origin == "Messages" or to.kafka is None or to.kafka.topic is not None,
    ),
    _of_each(
        message="a topic is put back once: with destination.kafka.createTopic, leave trigger out",
        cel=lambda to: f"!has({to}.kafka) || !{to}.kafka.createTopic || !has(self.trigger)",
        holds=lambda spec, to: to.kafka is None or not to.kafka.create_topic or spec.trigger is None,
    ),
    ValidationRule(
        message="select.expired needs origin Messages: dead letters don't expire",
        cel="self.origin == 'Messages' || !has(self.select.expired)",
        holds=lambda spec: spec.origin == "Messages" or spec.select.expired is None,
    ),
    _of_each(
        message="dead letters are sent as they came: leave destination.envelope out, or set origin Messages",
        cel=lambda to: f"self.origin == 'Messages' || {to}.envelope == 'Native'",
        holds=lambda spec, to: spec.origin == "Messages" or to.envelope == "Native",
    ),
    _of_each(
        message="a record as it came has no marks and no attempts, and comes in the order of its partition: with "
        "destination.envelope Original leave out mark and select.dueForRetry, and set order PerStream or Global",
        cel=lambda to: (
            f"{to}.envelope != 'Original'"
            " || !has(self.mark) && !self.select.dueForRetry && self.order in ['PerStream', 'Global']"
        ),
        holds=lambda spec, to: (
            to.envelope != "Original"
            or (spec.mark is None and not spec.select.due_for_retry and spec.order in ("PerStream", "Global"))
        ),
    ),
    _of_each(
        message="messages without a record are passed over round by round: with destination.envelope Original, set "
        "trigger interval, schedule or manual",
        cel=lambda to: f"{to}.envelope != 'Original' || !has(self.trigger) || !has(self.trigger.continuous)",
        holds=lambda spec, to: to.envelope != "Original" or spec.trigger is None or spec.trigger.continuous is None,
    ),
    _of_each(
        message="events in files have no headers but attributes: with destination.envelope CloudEvents to files, "
        "select.dueForRetry is left out, and mark.headers has names of small letters and digits",
        cel=lambda to: f"{to}.envelope == 'Native' || !has({to}.files) || {_ONLY_ATTRIBUTES}",
        holds=lambda spec, to: to.envelope == "Native" or to.files is None or _has_only_attributes(spec),
    ),
    ValidationRule(
        message="select.dueForRetry needs origin Messages: dead letters have no retries",
        cel="self.origin == 'Messages' || !self.select.dueForRetry",
        holds=lambda spec: spec.origin == "Messages" or not spec.select.due_for_retry,
    ),
    ValidationRule(
        message="trigger needs mode Run: a preview is made once",
        cel="!has(self.trigger) || self.mode == 'Run'",
        holds=lambda spec: spec.trigger is None or spec.mode == "Run",
    ),
    ValidationRule(
        message="give start with trigger, and leave both out for one replay; with select.dueForRetry there is no start",
        cel="has(self.start) == (has(self.trigger) && !self.select.dueForRetry)",
        holds=lambda spec: (spec.start is not None) == (spec.trigger is not None and not spec.select.due_for_retry),
    ),
    _of_each(
        message="trigger.continuous goes with kafka and http: files and streams go by interval, schedule or manual",
        cel=lambda to: f"!has(self.trigger) || !has(self.trigger.continuous) || has({to}.kafka) || has({to}.http)",
        holds=lambda spec, to: (
            spec.trigger is None or spec.trigger.continuous is None or to.kafka is not None or to.http is not None
        ),
    ),
    ValidationRule(
        message="trigger.continuous needs start: select.dueForRetry goes by interval, schedule or manual",
        cel="!has(self.trigger) || !has(self.trigger.continuous) || has(self.start)",
        holds=lambda spec: spec.trigger is None or spec.trigger.continuous is None or spec.start is not None,
    ),
    ValidationRule(
        message="start needs origin Messages: dead letters have no position",
        cel="!has(self.start) || self.origin == 'Messages'",
        holds=lambda spec: spec.start is None or spec.origin == "Messages",
    ),
    ValidationRule(
        message="with start, select has neither globalPositions, timeWindow.to nor limit: it would come to an end",
        cel=(
            "!has(self.start) || !has(self.select.globalPositions) && !has(self.select.limit)"
            " && (!has(self.select.timeWindow) || !has(self.select.timeWindow.to))"
        ),
        holds=lambda spec: spec.start is None or not _ends(spec.select),
    ),
    ValidationRule(
        message="with start, select has no statuses: they change after a message was passed over",
        cel="!has(self.start) || self.select.statuses.size() == 0",
        holds=lambda spec: spec.start is None or len(spec.select.statuses) == 0,
    ),
    ValidationRule(
        message="with start, order Sequence needs select.sequences.completeOnly: a sequence may come in two rounds",
        cel=f"!has(self.start) || self.order != 'Sequence' || {_COMPLETE}",
        holds=lambda spec: spec.start is None or spec.order != "Sequence" or _is_complete_only(spec.select),
    ),
    ValidationRule(
        message="a replay with a trigger never ends: it has neither activeDeadline nor ttlAfterFinished",
        cel="!has(self.trigger) || (!has(self.activeDeadline) && !has(self.ttlAfterFinished))",
        holds=lambda spec: spec.trigger is None or count_given(spec, ("active_deadline", "ttl_after_finished")) == 0,
    ),
)


def _has_only_attributes(spec: Any) -> bool:
    names = () if spec.mark is None else spec.mark.headers
    return not spec.select.due_for_retry and all(re.fullmatch("[a-z0-9]+", name) for name in names)


def _is_complete_only(select: Any) -> bool:
    return select.sequences is not None and select.sequences.complete_only


def _ends(select: Any) -> bool:
    window = select.time_window
    return count_given(select, ("global_positions", "limit")) > 0 or (window is not None and window.to is not None)
