"""What policies would remove in the next days, as far as it is known without a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from messagestore.figures import DAYS, PolicyRules
from messagestore.leaving import Leaving
from messagestore_core.clock import shifted
from messagestore_core.contract.purge import Rule
from messagestore_operator.api import MessageStream, Resource, RetentionPolicy
from messagestore_operator.page import pictures, words
from messagestore_operator.page.parts import Picture, Section, Table
from messagestore_operator.translate.common import as_document, holds_of


@dataclass(frozen=True)
class Applied:
    """A policy and what it asks of one store; ``stream`` is None where no manifest describes the store's stream."""

    policy: RetentionPolicy
    stream: MessageStream | None

    @property
    def rules_and_holds(self) -> PolicyRules:
        """Its rules and the stream's holds, as a run gets them."""
        rules = tuple(as_document(Rule, rule) for rule in self.policy.spec.rules)
        return PolicyRules(rules=rules, holds=holds_of(self.stream) if self.stream else ())


def applied(resources: Sequence[Resource], owner: tuple[str, str] | None) -> list[Applied]:
    """The policies that remove messages of a MessageStream, named by namespace and name; those that scrub don't."""
    streams = [one for one in resources if isinstance(one, MessageStream) and one.identity[1:] == owner]
    stream = streams[0] if streams else None
    policies = [one for one in resources if isinstance(one, RetentionPolicy) and one.spec.action == "Delete"]
    return [Applied(policy, stream) for policy in policies if _names(policy, owner, stream)]


def _names(policy: RetentionPolicy, owner: tuple[str, str] | None, stream: MessageStream | None) -> bool:
    if owner is None or policy.metadata.namespace != owner[0]:
        return False
    if any(reference.name == owner[1] for reference in policy.spec.stream_refs):
        return True
    return stream is not None and policy.selects(stream.metadata.labels)


def forecast(leaving_by_policy: Sequence[tuple[Applied, Leaving]], as_of: datetime) -> Section:
    """A picture for each policy."""
    heading = f"What policies would remove in {DAYS} days"
    if not leaving_by_policy:
        return Section(heading, nothing="No policy for this store was given by --policies.")
    shown = [_picture(one, leaving, as_of) for one, leaving in leaving_by_policy]
    return Section(heading, shown, notes=[note for one, leaving in leaving_by_policy for note in _notes(one, leaving)])


def _picture(one: Applied, leaving: Leaving, as_of: datetime) -> Picture:
    title = f"Policy {one.policy.metadata.name}"
    by_day = {day.day: day for day in leaving.days}
    labels = ["now", *(f"{shifted(as_of, timedelta(days=day)):%Y-%m-%d}" for day in range(1, DAYS + 1))]
    counts = [by_day[day].messages if day in by_day else 0 for day in range(DAYS + 1)]
    rows = [
        (labels[day.day], words.number(day.messages), words.number(day.payload_bytes), words.size(day.payload_bytes))
        for day in leaving.days
    ]
    total, size = sum(counts), sum(day.payload_bytes for day in leaving.days)
    said = (
        f"{words.number(total)} messages with {words.size(size)} of payloads, of the messages that there are now; "
        f"{words.number(leaving.held)} that a hold keeps are not counted. {_mode(one.policy)}"
    )
    table = Table(("By (UTC)", "Messages", "Bytes of payloads", "Payloads"), rows, frozenset({1, 2, 3}))
    return Picture(title, said, table, pictures.stacked_bars(title, labels, [("Messages", counts)]) if total else None)


def _mode(policy: RetentionPolicy) -> str:
    spec = policy.spec
    if spec.suspend:
        return "The policy is suspended: it removes nothing."
    if spec.mode == "DryRun":
        return "Its mode is DryRun: it only shows what it would remove."
    if spec.approval == "Required":
        return "Each removal waits for an approval."
    return "It removes them with its runs."


def _notes(one: Applied, leaving: Leaving) -> list[str]:
    name = one.policy.metadata.name
    notes = [
        f"{name}: rule {rule} is not counted: only a run can judge {', '.join(fields)}."
        for rule, fields in leaving.untold.items()
    ]
    if leaving.unjudged:
        notes.append(
            f"{name}: what hold {', '.join(leaving.unjudged)} keeps is counted: only a run can judge its match."
        )
    if one.stream is None:
        notes.append(f"{name}: holds are not known: give the MessageStream's manifest by --policies, too.")
    return notes
