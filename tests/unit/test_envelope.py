"""The classes that have a field of the envelope each have all of them."""

from dataclasses import fields

from messagestore.message import Message
from messagestore.writer import NewMessage
from messagestore_core.envelope import COLUMNS, MAPPED, READ
from messagestore_operator.api.envelope import EnvelopeFields, TranslatedFields

OF_THE_LIFECYCLE = {"status", "result", "error"}


def test_a_custom_envelope_maps_each_field_of_a_record() -> None:
    assert set(EnvelopeFields.model_fields) == {field.column for field in MAPPED}


def test_a_message_has_each_column_for_readers() -> None:
    assert [field.name for field in fields(Message)] == [field.column for field in READ]


def test_a_new_message_has_each_field_of_a_record() -> None:
    """Its stream is given by its whole name, its status is RECEIVED, and its time to live is in seconds."""
    given = {field.column for field in MAPPED} - OF_THE_LIFECYCLE - {"category", "stream_id", "ttl"}
    assert {field.name for field in fields(NewMessage)} == given | {"ttl_seconds"}


def test_only_texts_are_translated() -> None:
    translated = [field for field in COLUMNS if field.translated]
    assert {field.type for field in translated} == {"string"}
    assert list(TranslatedFields.model_fields) == [field.column for field in translated]
