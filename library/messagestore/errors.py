"""What readers and writers raise."""


class MessageStoreError(Exception):
    """The root of all of them."""


class ArgumentError(MessageStoreError, ValueError):
    """A function was called with what it does not take. Where message-db refuses the same, in its words."""


class StoreNotFoundError(MessageStoreError):
    """There is no message store at a URI."""


class StoreUnreadableError(MessageStoreError):
    """The store is of a newer format, or its marker is none."""


class StorageError(MessageStoreError):
    """Storage or Kafka refuses or fails, or a file that is needed is lost."""


class VersionNotFoundError(MessageStoreError):
    """The store has no such version, or none of that time."""


class BrokenMessageError(MessageStoreError):
    """A message is not what was stored; nothing of it is handed on.

    Attributes:
        message_id: its id.
        stream_name: its stream.
        global_position: where it stands.
        problem: what is wrong with it.
    """

    def __init__(self, message_id: str, stream_name: str, global_position: int, problem: str) -> None:
        super().__init__(f"message {message_id} (stream {stream_name}, global position {global_position}): {problem}")
        self.message_id = message_id
        self.stream_name = stream_name
        self.global_position = global_position
        self.problem = problem


class RecordError(MessageStoreError, ValueError):
    """A record can't be written: the store would set it aside."""
