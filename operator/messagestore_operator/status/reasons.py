"""Reasons for a resource's state: the one list of constants for conditions, Events and logs.

A failed run reports a reason, too. Those are listed here because the next action depends on them.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Constants of ``reason`` in conditions and of ``error.reason``; add new ones only here.

    Each has its meaning and remedy in Markdown, with links relative to docs/. docs/reasons.md is generated from them.
    """

    meaning: str
    remedy: str

    def __new__(cls, value: str, meaning: str, remedy: str = "Nothing.") -> Reason:
        """A constant with its meaning and remedy."""
        reason = str.__new__(cls, value)
        reason._value_, reason.meaning, reason.remedy = value, meaning, remedy
        return reason

    # All is well.
    INGESTING = ("Ingesting", "Messages are ingested as the trigger says.")
    PREVIEWED = (
        "Previewed",
        "The preview is ready. Nothing is removed while `mode` is DryRun.",
        "Set `mode: Enforce` to remove the messages.",
    )
    PURGED = ("Purged", "Messages were removed.")
    SCRUBBED = ("Scrubbed", "Messages were scrubbed.")
    NOTHING_TO_REMOVE = ("NothingToRemove", "No rule selects a message.")
    AWAITING_APPROVAL = (
        "AwaitingApproval",
        "The preview is ready, and `approval: Required` waits for approval.",
        "Read the preview, then put its id into annotation `messagestore.dev/approved-preview`.",
    )
    CURSOR_FOUND = (
        "CursorFound",
        "A subscription was made again under its name, and goes on behind the cursor of before.",
        "Nothing, if this is intended. Else set annotation `messagestore.dev/reset-to`.",
    )
    RETENTION_BLOCKED = (
        "RetentionBlocked",
        "Messages that [`consumedBy`](retention.md#consumed-by-all-then-gone) keeps have waited for a subscription for "
        "longer than `runs.retentionBlockedAfter`. The message names it. All other messages leave as the rules say.",
        "See why that ReplayJob doesn't send; if nobody needs it any more, take it out of `consumedBy`.",
    )
    REPLAYED = ("Replayed", "The whole selection was sent.")
    SUSPENDED = ("Suspended", "`spec.suspend` is true.", "Set it to false to continue.")
    SOURCE_NOT_FOUND = (
        "SourceNotFound",
        "The source's folder doesn't exist, or is empty, and no file of it was ever read.",
        "Nothing, if no file has been sent yet. Else correct `source.files.uri`, which the message names.",
    )
    WAITING = ("Waiting", "Nothing is due. The trigger starts the next run.")

    # Work is in progress.
    PENDING = ("Pending", "No run has started yet, or the pods of a run are starting.")
    RUNNING = ("Running", "A run is in progress.")
    DELETING = ("Deleting", "The resource is being deleted.")

    # A run can't start.
    DELETION_BLOCKED = (
        "DeletionBlocked",
        "The data can't be deleted: a hold covers it, or another stream of the namespace uses the same folder.",
        "Release the hold, or set `deletionPolicy: Retain`.",
    )
    SECRET_MISSING = ("SecretMissing", "A Secret that the resource names isn't in its namespace.", "Create the Secret.")
    ERASING = (
        "Erasing",
        "An erasure of the store is under way, or about to be. Replays out of it pause, so that none sends what is "
        "being erased.",
        "Nothing: the replay goes on by itself afterwards, where it was.",
    )
    PAUSED = (
        "Paused",
        "The operator or the namespace is paused: no new run starts. Runs in progress continue.",
        "Nothing, if this is intended. Else see the setting or annotation that the message names "
        "([operator.md](operator.md#pauses-and-windows)).",
    )
    SPARK_OPERATOR_MISSING = (
        "SparkOperatorMissing",
        "The cluster has no kind SparkApplication. No run starts, and nothing is lost.",
        "Install the Spark operator. Runs start some seconds later.",
    )
    STREAM_MISSING = (
        "StreamMissing",
        "A MessageStream that the resource names doesn't exist in this namespace.",
        "Create it, or correct the name.",
    )
    TABLE_RELEASED = (
        "TableReleased",
        "The store was given to another stream, by annotation `messagestore.dev/release-table-to` or setting "
        "`tenancy.adoptions`.",
        "Delete the resource, or remove the annotation before the store has been taken over.",
    )
    TOO_MANY_STREAMS = (
        "TooManyStreams",
        "More than 100 streams match a policy's selector.",
        "Narrow the selector, or create several policies.",
    )
    WAITING_FOR_DRIVER = (
        "WaitingForDriver",
        "A run has ended, but its driver pod may still write.",
        "Nothing. If its node is lost, delete the pod once the machine is off.",
    )
    WAITING_FOR_ROOM = (
        "WaitingForRoom",
        "The maximum number of runs, or of starts per second, is reached.",
        "Nothing: this run starts in its turn. Or ask for a higher value of the setting that the message names "
        "([operator.md](operator.md#runs-at-once)).",
    )
    WAITING_FOR_WINDOW = (
        "WaitingForWindow",
        "The operator's settings allow this run only in certain windows (`runs.windows`), and none is open.",
        "Nothing: it starts when a window opens.",
    )
    WRONG_APPROVAL = (
        "WrongApproval",
        "The annotation approves a preview other than the current one.",
        "Read the current preview, and approve its id.",
    )

    # Only in Events.
    DATA_DELETED = ("DataDeleted", "The store was deleted, as `deletionPolicy: Delete` asks.")
    DATA_KEPT = (
        "DataKept",
        "The resource is gone, but its store is still there.",
        "Delete the folder if you don't need it.",
    )
    DEAD_LETTERS = (
        "DeadLetters",
        "The last run stored records as dead letters.",
        "`status.table.deadLettersByReason` counts them by reason. See [bad-input.md](bad-input.md) and table "
        "`dead_letters`.",
    )
    RECORDS_LOST = (
        "RecordsLost",
        "Records of a topic were gone before they were read: retention removed them, or the topic was deleted.",
        "Read more often, or keep them longer. `status.loss` has the offsets.",
    )
    RETRIES_EXHAUSTED = (
        "RetriesExhausted",
        "Messages failed and have no retry left.",
        "Look at their `error`. An update RETRY gives a message [one more retry](lifecycle.md#once-more).",
    )
    RUN_FINISHED = ("RunFinished", "A run succeeded; an ingest, after one that did not.")
    RUN_STARTED = ("RunStarted", "A run has started. Ingests that follow each other share an Event.")
    RUN_STOPPED = (
        "RunStopped",
        "The operator, or the end of its pod, stopped a run early.",
        "Nothing: the next run continues from there.",
    )
    SCHEDULE_MISSED = (
        "ScheduleMissed",
        "A scheduled run was skipped because it was too late.",
        "Nothing. `startingDeadline` says how late it may be.",
    )
    SEQUENCES_OVERDUE = (
        "SequencesOverdue",
        "Message sequences are still incomplete after `sequences.timeout`.",
        "`status.sequences` counts them and names the oldest. Ask its sender for the missing members.",
    )

    # A run failed: its pods.
    CONFIG_MISSING = (
        "ConfigMissing",
        "A container can't be created, usually because a Secret, one of its keys or a ConfigMap is missing.",
        "Create what the message names.",
    )
    DRIVER_LOST = (
        "DriverLost",
        "The driver pod is gone and did not report how it ended.",
        "Look for a lost node or a deleted pod. The run is retried.",
    )
    EVICTED = (
        "Evicted",
        "The node evicted the driver because it lacked memory or disk.",
        "Give the nodes more, or set `spec.spark.driver` to what the driver needs. The run is retried.",
    )
    IMAGE_PULL_FAILED = (
        "ImagePullFailed",
        "A node can't pull the image of driver or executors.",
        "Check the image's name, and `spark.imagePullSecrets` of the settings.",
    )
    OUT_OF_MEMORY = (
        "OutOfMemory",
        "Driver or executor ran out of memory.",
        "Raise `spec.spark.driver.memory` or `spec.spark.executor.memory`.",
    )
    POD_FAILED = ("PodFailed", "A pod starts and fails repeatedly.", "Read its log.")
    REPORT_MISSING = ("ReportMissing", "The run ended without a valid report.", "Read the driver's log.")
    RUN_LOST = ("RunLost", "The application of a run was deleted before the run ended.", "Nothing: the run is retried.")
    START_DEADLINE_EXCEEDED = (
        "StartDeadlineExceeded",
        "Pods did not start in time.",
        "Check the Spark operator, and whether it watches this namespace.",
    )
    SUBMISSION_FAILED = (
        "SubmissionFailed",
        "The API server refused the run's application, or the Spark operator could not create the driver.",
        "Read the message, which quotes the server; usually a quota, an admission rule or rights. It is "
        "retried, later each time.",
    )
    UNSCHEDULABLE = (
        "Unschedulable",
        "No node accepts a pod.",
        "Add capacity to the cluster, or ask for less in `spec.spark`.",
    )

    # The operator ended a run.
    DEADLINE_EXCEEDED = (
        "DeadlineExceeded",
        "A replay took longer than `spec.activeDeadline`.",
        "Create a new one with more time, a higher rate or a smaller selection.",
    )
    SPEC_CHANGED = (
        "SpecChanged",
        "A run was ended because the spec has changed.",
        "Nothing: a run with the new spec follows.",
    )
    STOP_DEADLINE_EXCEEDED = (
        "StopDeadlineExceeded",
        "A run did not stop in time when asked, and was ended.",
        "Nothing. `runs.stopDeadline` says how long it may take.",
    )

    # A run failed: its work.
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
    FOLDERS_OVERLAP = (
        "FoldersOverlap",
        "A folder of the resource is, is in, or contains a folder of another one that was there first, and one would "
        "take in, remove or replace what the other needs.",
        "Use a folder beside it. The message names both resources and fields.",
    )
    NOT_ALLOWED = (
        "NotAllowed",
        "A field asks for more than the operator's settings allow, or a Secret isn't labelled for its use.",
        "Ask for less, or for a change of the operator's setting that the message names. Label the Secret as "
        "the message says ([security.md](security.md)).",
    )
    NOT_SUPPORTED = (
        "NotSupported",
        "This release doesn't support a field's value, or pods can't reach a folder, such as `file:///…`.",
        "Change the field that the message names. Folders are `s3a://bucket/folder`.",
    )
    OBJECTS_MISSING = (
        "ObjectsMissing",
        "Somebody removed objects of a replay from its folder before the replay ended.",
        "Create a new replay with another folder, and read it once `manifest.json` is there.",
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
    STREAM_FAILED = (
        "StreamFailed",
        "In a local run: the stream's own ingest failed, so resources that need it were not run.",
        "Correct the stream's error first.",
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
        "The topic of a replay with `envelope: Original` lacks partitions of the records, these came from several "
        "topics, or it can't be made as it was.",
        "Do what the message says: give the topic as many partitions, select the records of one topic, or make the "
        "topic yourself.",
    )
    TOPIC_REPLACED = (
        "TopicReplaced",
        "The topic that a replay sends to was deleted and created again before the replay ended. The message says how "
        "much went to the one that is gone.",
        "Create a new replay of another name; it sends all to the new topic.",
    )
