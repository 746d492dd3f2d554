"""Reasons for a resource's state: with those of failed runs, the one list of constants for conditions and Events."""

from messagestore_core.reasons import ExplainedReason


class Reason(ExplainedReason):
    """Constants of ``reason`` in conditions that the operator finds; add new ones only here, or to ``Failure``."""

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
    SECRET_MISSING = (
        "SecretMissing",
        "A Secret that the resource names isn't in its namespace.",
        "Create the Secret, with label `messagestore.dev/use`: the operator looks twice a minute.",
    )
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
    STREAM_FAILED = (
        "StreamFailed",
        "In a local run: the stream's own ingest failed, so resources that need it were not run.",
        "Correct the stream's error first.",
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
    EXECUTORS_REFUSED = (
        "ExecutorsRefused",
        "The API server refuses to create executors of a run that needs some.",
        "Read the message, which quotes the server; usually a quota or an admission rule.",
    )
    IMAGE_PULL_FAILED = (
        "ImagePullFailed",
        "A node can't pull the image of driver or executors.",
        "Check the image's name, and `spark.imagePullSecrets` of the settings.",
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
