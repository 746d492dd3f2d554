"""Reasons that runs report for their failure; listed here because the next action depends on them."""

from messagestore_core.reasons import ExplainedReason


class Failure(ExplainedReason):
    """Constants of ``error.reason`` in reports; the operator finds some of them before a run starts."""

    ARCHIVE_INCOMPLETE = (
        "ArchiveIncomplete",
        "The archive doesn't hold all messages that it should have. Nothing more was removed.",
        "Nothing at first: it is retried. If it stays, find out who deletes files from the archive's folder, and "
        "restore them.",
    )
    ARCHIVE_TAKEN = (
        "ArchiveTaken",
        "The archive's folder holds the archive of another store's purge under the same id. Nothing was removed.",
        "Move that archive to another folder.",
    )
    COMMIT_LOST = (
        "CommitLost",
        "A batch was not in the table after its commit.",
        "Nothing: the next run repeats it. If it stays, find out who else writes to the folder.",
    )
    DESTINATION_NOT_EMPTY = (
        "DestinationNotEmpty",
        "The folder of a replay held files before the replay began.",
        "Create a new replay with an empty folder.",
    )
    ERASURE_INCOMPLETE = (
        "ErasureIncomplete",
        "After an erasure, the store still holds something that was erased, or that can't be distinguished from it. "
        "The message names it.",
        "Find out who wrote it, and remove it. The next run checks again.",
    )
    FENCED = ("Fenced", "A newer run has the right to write the table. This one wrote nothing more.")
    HOLD_ACTIVE = ("HoldActive", "A hold prevents the deletion of the store.", "Release the hold.")
    INVALID_SPEC = (
        "InvalidSpec",
        "A field has an unusable value, such as a schedule that never fires or an unknown time zone, or "
        "belongs to a newer release. No run starts; a run in progress continues.",
        "Change what the message names.",
    )
    HTTP_ADDRESS_FORBIDDEN = (
        "HttpAddressForbidden",
        "The name of an HTTP endpoint stands for an address that runs may not reach.",
        "Name another endpoint; for one in a private network, such as a Service, ask who runs the operator to set "
        "`tenancy.http.allowPrivate`.",
    )
    HTTP_DENIED = (
        "HttpDenied",
        "An HTTP endpoint refuses all messages: it answers 401, 403, 404, 410 or with a redirect.",
        "Correct `destination.http.url`, the Secret of its header, or what the endpoint allows.",
    )
    HTTP_REFUSED = (
        "HttpRefused",
        "An HTTP endpoint refuses a message, whose global position the message names, and there is no `deadLetter`.",
        "Make the endpoint take it, give `destination.http.delivery.deadLetter`, or move the cursor past it.",
    )
    HTTP_UNREACHABLE = (
        "HttpUnreachable",
        "An HTTP endpoint can't be reached, doesn't answer, or answers 408, 425, 429 or 5xx.",
        "Nothing at first: it is retried. If it stays, check the endpoint, its certificate and the network.",
    )
    KAFKA_DENIED = (
        "KafkaDenied",
        "Kafka's brokers refuse the user, or what it does.",
        "Check the keys of the Secret, and the user's [ACLs](kafka.md#acls).",
    )
    KAFKA_UNREACHABLE = (
        "KafkaUnreachable",
        "Kafka's brokers can't be reached, or don't answer.",
        "Nothing at first: it is retried. If it stays, check `bootstrapServers`, `security` and the network.",
    )
    MESSAGES_BROKEN = (
        "MessagesBroken",
        "Some messages of a replay no longer match what was stored: their digest or seal is wrong, or the "
        "payload is gone. The message names the first. All others were sent.",
        "Find out who changed the store, and restore those messages. Or replay again with `onFailed: "
        "Continue`; the replay is then Complete and Degraded.",
    )
    MESSAGES_LOST = (
        "MessagesLost",
        "Some messages of a replay are no longer in the store, and were not erased. A purge removed them "
        "during a pause, and an erasure removed the earlier table versions. The message names their "
        "positions.",
        "All others were sent. If you need the lost ones, restore them from an archive.",
    )
    MISSING_KEY = ("MissingKey", "The Secret has no key for hashing.", "Put the key into the Secret.")
    OBJECTS_MISSING = (
        "ObjectsMissing",
        "Somebody removed objects of a replay from its folder before the replay ended.",
        "Create a new replay with another folder, and read it once `manifest.json` is there.",
    )
    OUT_OF_MEMORY = (
        "OutOfMemory",
        "Driver or executor ran out of memory.",
        "Raise `spec.spark.driver.memory` or `spec.spark.executor.memory`.",
    )
    PREDICATE_REFUSED = (
        "PredicateRefused",
        "A filter, rule or selection has an expression that is invalid or not allowed.",
        "Write what the message says; [filters](filters.md) has the language.",
    )
    PURGE_UNFINISHED = (
        "PurgeUnfinished",
        "A purge was interrupted, and its archive differs from this policy's, or somebody has removed what tells which "
        "messages it was to remove.",
        "Let the interrupted policy run, or set its archive back to what the message names, until the purge "
        "has ended. If nobody knows it, remove the folder that the message names.",
    )
    RECORD_TOO_LARGE = (
        "RecordTooLarge",
        "A selected record is too large for the topic.",
        "Raise the topic's `max.message.bytes`, or exclude the message from the selection.",
    )
    CURSOR_UNKNOWN = (
        "CursorUnknown",
        "A continuous replay broke off, and the cluster has forgotten how much of its last round has arrived: "
        "`offsets.retention.minutes` had passed before the next run. Nothing is sent.",
        "Look which message the topic has last, and set annotation `messagestore.dev/reset-to` to the first position "
        "that is to be sent ([replay.md](replay.md#subscriptions)).",
    )
    DESTINATIONS_FAILED = (
        "DestinationsFailed",
        "One or several of a replay's `destinations` don't take what is sent; the message says which, and why. Others "
        "go on. If all fail, so does the run.",
        "See the reason of each in `status.destinations`. They are tried again, unless only a change helps.",
    )
    ROUTE_UNDECIDED = (
        "RouteUndecided",
        "The `where` of one of several destinations can't be computed for a message, whose global position the message "
        "names, and no destination has `otherwise`. This destination has all before it; others go on.",
        "Change `where`, give another destination `otherwise: true`, or move the cursor past the message "
        "([replay.md](replay.md#routes)).",
    )
    CURSOR_AHEAD = (
        "CursorAhead",
        "A subscription has sent messages at positions that its store has not reached, as the store was laid back from "
        "a copy; or annotation `messagestore.dev/reset-to` names such a position. Nothing is sent.",
        "Set annotation `messagestore.dev/reset-to` to the first position that is to be sent, or to `Now` "
        "([replay.md](replay.md#subscriptions)).",
    )
    CURSOR_OF_ANOTHER = (
        "CursorOfAnother",
        "`select.sequences.completeOnly`, or with it `order`, is another one than when the subscription's cursor was "
        "made. Nothing is sent.",
        "Set it back, or set annotation `messagestore.dev/reset-to` to the first position that is to be sent; the "
        "message says where the cursor is, and what waits ([replay.md](replay.md#complete-sequences)).",
    )
    SEQUENCES_WAIT = (
        "SequencesWait",
        "More than a million messages wait for others of their sequences. The subscription sends nothing more.",
        "Set `select.sequences.orOverdue` and the stream's `sequences.timeout`, or have a RetentionPolicy remove "
        "messages of incomplete sequences ([replay.md](replay.md#complete-sequences)).",
    )
    REPLAY_CHANGED = (
        "ReplayChanged",
        "A replay was resumed with another selection, or its store was deleted and created again.",
        "Create a new replay.",
    )
    RUN_FAILED = (
        "RunFailed",
        "A run failed for a reason that has no constant.",
        "Read the message and the driver's log. The run is retried.",
    )
    RUN_STOPPED = (
        "RunStopped",
        "The operator, or the end of its pod, stopped a run early.",
        "Nothing: the next run continues from there.",
    )
    SOURCE_CHANGED = (
        "SourceChanged",
        "A file was replaced while it was read.",
        "Nothing: the next run reads it again. Write files under new names.",
    )
    SOURCE_UNREADABLE = (
        "SourceUnreadable",
        "A file of the source has a name that is not UTF-8. All others were read.",
        "Rename the file.",
    )
    STORAGE_DENIED = (
        "StorageDenied",
        "The object store refuses the credentials, or there are none; or files of a source may be listed but not read.",
        "Check the keys in the Secret, and [what they may do](security.md#what-credentials-have-to-allow).",
    )
    STORAGE_MISSING = ("StorageMissing", "A bucket doesn't exist.", "Create it, or correct the URI.")
    STORAGE_UNREACHABLE = (
        "StorageUnreachable",
        "The object store doesn't answer, or something else answers. The message names the endpoint.",
        "Check `storage.endpoint`, its certificate and the network.",
    )
    TABLE_BUSY = (
        "TableBusy",
        "Another run writes to the table, or an erasure waits for the replays out of it.",
        "Nothing: this run starts afterwards.",
    )
    TABLE_REFUSED = (
        "TableRefused",
        "The folder holds something else or another stream's store, or something in the store that no run "
        "wrote: columns, properties, paths or rows of a table, a document, a link; or a table is missing or older "
        "than the others.",
        "The message names it. Name another folder, or take it over: [store.md](store.md#another-owner). If "
        "somebody else has written to it: [recovery.md](recovery.md).",
    )
    TOPIC_MISSING = (
        "TopicMissing",
        "A topic that the resource names doesn't exist, or the user may not see it.",
        "Create it, or correct its name.",
    )
    TOPIC_REFUSED = (
        "TopicRefused",
        "Messages name the topics that a replay sends to, and one, whose global position is told, names none, or one "
        "that `topicFrom.pattern` does not match. No destination has `otherwise`, or that has passed the message. This "
        "destination has all before it; others go on.",
        "Change `topicFrom`, give another destination `otherwise: true`, or move the cursor past the message "
        "([kafka.md](kafka.md#topics-that-messages-name)).",
    )
    TOPIC_UNFIT = (
        "TopicUnfit",
        "The topic of a replay refuses the time of a record, or one without a key. Or its brokers allow only shorter "
        "transactions than a replay's. Or with `envelope: Original` it lacks partitions of the records, these came "
        "from several topics, or it can't be made as it was.",
        "Do what the message says: change the configuration of the topic or of the brokers, give it as many "
        "partitions, select the records of one topic, or make the topic yourself.",
    )
    TOPIC_REPLACED = (
        "TopicReplaced",
        "The topic that a replay sends to was deleted and created again before the replay ended. The message says how "
        "much went to the one that is gone.",
        "Create a new replay of another name; it sends all to the new topic.",
    )
