"""The errors of readers and writers."""


class MessageStoreError(Exception):
    """The base class of all of them."""


class ArgumentError(MessageStoreError, ValueError):
    """A function got an argument that it does not take. Where message-db refuses it too, the text is message-db's."""


class StoreNotFoundError(MessageStoreError):
    """There is no message store at a URI."""


class StoreUnreadableError(MessageStoreError):
    """The store has a newer format, an invalid marker, or a log that leads outside the store."""


class StorageError(MessageStoreError):
    """Storage or Kafka refuses or fails, or a needed file is lost."""


class VersionNotFoundError(MessageStoreError):
    """The store has no such version, or no version of that time."""


class BrokenMessageError(MessageStoreError):
    """A message is not what was stored; nothing of it is returned.

    Attributes:
        global_position: its position in the store.
        problem: what is wrong with it.
    """

    def __init__(self, message_id: str, stream_name: str, global_position: int, problem: str) -> None:
        super().__init__(f"message {message_id} (stream {stream_name}, global position {global_position}): {problem}")
        self.message_id = message_id
        self.stream_name = stream_name
        self.global_position = global_position
        self.problem = problem


class RecordError(MessageStoreError, ValueError):
    """A record can't be written: the store would make a dead letter of it."""


class ConsumerStateError(MessageStoreError):
    """What consumers of a name keep is gone, is in use, or is of consumers with another number of slots."""


class LeaseLostError(MessageStoreError):
    """Another consumer of the name has taken the slots: what was not committed is its work now."""


class CursorAheadError(MessageStoreError):
    """A cursor is ahead of its store, which was put back from a copy."""
