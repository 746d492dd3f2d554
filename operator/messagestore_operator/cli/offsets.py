"""``messagestore offsets``: where a consumer group goes on in topics that were put back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.output import BAD_INPUT, Column, echo, failure, print_table
from messagestore_operator.cli.store import Store, reporting

if TYPE_CHECKING:
    from messagestore.restored import Moved


def offsets(
    store: Store,
    group: Annotated[
        str, typer.Option("--group", metavar="GROUP", show_default=False, help="The consumer group's name.")
    ],
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            metavar="NAMESPACE/NAME",
            show_default=False,
            help="Only topics that this ReplayJob has put back. Default: all.",
        ),
    ] = None,
    csv: Annotated[
        bool,
        typer.Option(
            "--csv", help="Print lines topic,partition,offset, as kafka-consumer-groups --from-file takes them."
        ),
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Commit the offsets. A group that has members is refused.")
    ] = False,
    client: Annotated[
        Path | None,
        typer.Option(
            "--client",
            metavar="FILE",
            show_default=False,
            help="With --apply: settings of librdkafka, one a line, such as bootstrap.servers=kafka:9092.",
        ),
    ] = None,
) -> None:
    """Say where a consumer group goes on in topics that a replay has put back; with --apply, commit it.

    The stream has noted the group's offsets (source.kafka.keepGroupOffsets) before the topic was lost. The group
    goes on with the record that it would have read next or, if that was not sent, with the next one that was.

    Exits 1 if nothing is known of the group, or if the offsets can't be committed.
    """
    if apply and client is None:
        raise failure("--apply needs --client", BAD_INPUT)
    with reporting():
        from messagestore.restored import moved_offsets

        moved = moved_offsets(store, group, job)
        if not moved:
            raise failure(f"no topic that was put back has noted offsets of group {group}")
        _print(moved, csv=csv)
        if client is not None and apply:
            from messagestore.kafka_groups import commit, settings_of

            commit(settings_of(client), group, moved)
            echo(f"committed for group {group}", err=True)


def _print(moved: list[Moved], *, csv: bool) -> None:
    if csv:
        for one in moved:
            echo(f"{one.topic},{one.partition},{one.offset}")
        return
    columns = [Column("TOPIC"), Column("PARTITION"), Column("WAS"), Column("GOES ON")]
    print_table(columns, [(one.topic, one.partition, one.before, one.offset) for one in moved])
