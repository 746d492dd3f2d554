"""Valid resources that together have all fields of the three kinds."""

from copy import deepcopy
from typing import Any

from messagestore_core.envelope import MAPPED

Document = dict[str, Any]

API_VERSION = "messagestore.dev/v1alpha1"
TIME = "2026-03-01T06:30:00Z"
LATER = "2026-03-01T07:30:00Z"

_STORAGE: Document = {
    "endpoint": "https://objects.example.org:9000",
    "region": "eu-central-1",
    "pathStyleAccess": True,
    "credentialsSecretRef": {"name": "lake-access"},
    "caSecretRef": {"name": "lake-ca", "key": "root.pem"},
}
_SPARK: Document = {
    "image": "registry.example.org/messagestore-spark:1.0",
    "driver": {"cores": 2, "memory": "2g"},
    "executor": {"instances": 3, "cores": 2, "memory": "4g"},
    "conf": {"spark.sql.shuffle.partitions": "16"},
}
_SECURITY: Document = {
    "protocol": "SASL_SSL",
    "mechanism": "SCRAM-SHA-512",
    "credentialsSecretRef": {"name": "kafka-user"},
    "username": "payments",
    "caSecretRef": {"name": "kafka-ca", "key": "ca.crt"},
    "clientCertificateSecretRef": {"name": "payments", "certificateKey": "user.crt", "privateKeyKey": "user.key"},
}
_BY_TOKEN: Document = {
    "protocol": "SASL_SSL",
    "mechanism": "OAUTHBEARER",
    "credentialsSecretRef": {"name": "kafka-client"},
    "oauth": {
        "tokenEndpoint": "https://keycloak.example.org:8443/realms/kafka/protocol/openid-connect/token",
        "scope": "kafka orders",
        "caSecretRef": {"name": "keycloak-ca", "key": "ca.crt"},
    },
}
_MATCH: Document = {
    "streamNames": ["invoice-7"],
    "categories": ["invoice"],
    "types": ["InvoicePaid"],
    "statuses": ["COMPLETED"],
    "correlationIds": ["customer-9"],
    "sequenceIds": ["upload-3"],
    "messageIds": ["m-1"],
    "headers": {"tenant": "north"},
    "where": "payload_size > 10",
}
_CONDITION: Document = {
    "type": "Ready",
    "status": "True",
    "reason": "Ingesting",
    "message": "12 messages stored",
    "observedGeneration": 2,
    "lastTransitionTime": TIME,
}
_ERROR: Document = {"reason": "SourceUnreachable", "message": "no route to the bucket"}
_CURRENT_RUN: Document = {
    "name": "invoices-ingest-2",
    "kind": "ingest",
    "state": "Running",
    "attempt": 1,
    "startedAt": TIME,
    "number": 2,
    "generation": 2,
    "requestedAt": TIME,
    "launchedAt": TIME,
    "stopRequestedAt": TIME,
    "ending": _ERROR,
    "progress": "ingest: 3 of 40",
}
_FINISHED_RUN: Document = {
    "name": "invoices-ingest-1",
    "kind": "ingest",
    "state": "Failed",
    "attempt": 2,
    "startedAt": TIME,
    "finishedAt": LATER,
    "error": _ERROR,
    "generation": 2,
    "cpuSeconds": 8.5,
    "bytesWritten": 4096,
}
_TABLE: Document = {
    "version": 3,
    "epoch": 2,
    "messages": 12,
    "deadLetters": 1,
    "deadLettersByReason": [{"reason": "Unparseable", "count": 1}],
    "bytes": 4096,
    "smallFiles": 2,
    "oldestMessageTime": TIME,
    "newestMessageTime": LATER,
    "lastGlobalPosition": 12,
}
_COUNTS: Document = {
    "received": 15,
    "stored": 12,
    "duplicates": 1,
    "deadLettered": 1,
    "filtered": 1,
    "discarded": 0,
    "unknownFields": 2,
}
_STREAM_RUN: Document = {**_FINISHED_RUN, **_COUNTS, "updates": 2, "expired": 1}


def resource(kind: str, name: str, spec: Document, status: Document | None = None) -> Document:
    """A resource that shares no objects with others."""
    document = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, "namespace": "default"}}
    return deepcopy({**document, "spec": spec, **({"status": status} if status else {})})


def stream_from_files() -> Document:
    """A stream with all fields that a stream from files may have."""
    spec: Document = {
        "table": {"uri": "s3a://lake/invoices", "deletionPolicy": "Delete"},
        "storage": _STORAGE,
        "source": {
            "files": {
                "uri": "s3a://landing/invoices/",
                "format": "JSON",
                "maxFilesPerBatch": 50,
                "afterIngest": "Archive",
                "archiveUri": "s3a://landing/taken-in",
                "storage": _STORAGE,
            }
        },
        "trigger": {"schedule": {"cron": "*/15 * * * *", "timeZone": "Europe/Vienna", "startingDeadline": "PT1H"}},
        "envelope": {
            "format": "Custom",
            "fields": {
                **{field.name: {"path": f"$.{field.name}", "default": "none"} for field in MAPPED},
                "schemaVersion": {"value": "2"},
            },
            "required": ["time"],
            "unknownFields": "Ignore",
            "translators": [
                {
                    "fromVersion": 1,
                    "fields": {
                        **{field.name: {"default": "2"} for field in MAPPED if field.translated},
                        "correlationId": {"rename": "causationId", "default": "none"},
                        "typeNamespace": {"path": "$.payload.space['name'][0]"},
                        **{name: {"value": "2"} for name in ("typeRevision", "type", "replyTo", "sequenceId")},
                    },
                    "headers": [
                        {"name": "tenant", "rename": "customer", "default": "north"},
                        {"name": "region", "value": "eu"},
                        {"name": "kind", "path": "$.headers['Kind']"},
                    ],
                }
            ],
        },
        "filter": {"types": ["InvoicePaid"], "where": "payload_size > 2", "unmatched": "DeadLetter"},
        "deduplication": {"window": "P7D", "rememberPurged": "P30D"},
        "expiration": {"onArrivalExpired": "Store", "defaultTtl": "P90D"},
        "retry": {
            "maxRetries": 3,
            "backoffBase": "3.5",
            "maxBackoff": "PT1H",
            "order": "PerCorrelation",
            "policy": "DeadLetter",
        },
        "payload": {"maxSize": "8Mi", "claimCheckThreshold": "1Mi", "compression": "None"},
        "integrity": {
            "hmacSecretRef": {"name": "seal", "key": "k"},
            "previousSecretRefs": [{"name": "seal", "key": "j"}],
            "unsigned": "Accept",
        },
        "holds": [{"name": "court-12", "match": _MATCH, "until": "2027-01-01T00:00:00Z"}],
        "lifecycle": {
            "source": {
                "files": {
                    "uri": "s3a://landing/invoice-status/",
                    "maxBytesPerBatch": "1Gi",
                    "afterIngest": "Archive",
                    "format": "JSONLines",
                    "lastLineTimeout": "PT5M",
                    "archiveUri": "s3a://landing/statuses-taken-in",
                }
            },
            "processingTimeout": "PT1H",
            "history": "All",
        },
        "sequences": {"timeout": "P1D"},
        "suspend": True,
        "spark": _SPARK,
        "runHistoryLimit": 5,
    }
    return resource("MessageStream", "invoices", spec, _stream_status())


def _stream_status() -> Document:
    return {
        "observedGeneration": 2,
        "conditions": [_CONDITION],
        "runNumber": 2,
        "phase": "Running",
        "totals": _COUNTS,
        "table": _TABLE,
        "sequences": {"incomplete": 2, "overdue": 1, "oldestTime": TIME, "oldestId": "upload-7"},
        "lag": {
            "asOf": TIME,
            "files": 3,
            "records": 20,
            "oldestPendingTime": TIME,
            "summary": "3 files",
            "sourceFound": True,
            "skippedFiles": 2,
        },
        "lifecycle": {
            "received": 9,
            "applied": 5,
            "stale": 1,
            "pending": 2,
            "deadLettered": 1,
            "exhausted": 1,
            "retried": 1,
            "timedOut": 1,
            "expired": 1,
            "unfinished": {"received": 4, "processing": 2, "failed": 1},
            "lagSummary": "1 file",
        },
        "currentRun": _CURRENT_RUN,
        "lastRun": _STREAM_RUN,
        "lastSuccessTime": TIME,
        "lastBatchTime": TIME,
        "lastBatch": {
            "readSeconds": 1.5,
            "decideSeconds": 0.25,
            "setAsideSeconds": 0.0,
            "commitSeconds": 2.75,
            "waitedSeconds": 61.5,
        },
        "lastingFailure": {"reason": "StorageDenied", "since": TIME, "attempts": 2},
        "nextRunTime": LATER,
        "lastScheduleTime": TIME,
        "lastHandledRequest": "once-more",
        "maintenance": {
            "at": TIME,
            "tableVersion": 2,
            "smallFiles": 1,
            "lastRun": _FINISHED_RUN,
            "requestedVersion": 1,
        },
        "recentRuns": [_STREAM_RUN],
    }


def stream_from_kafka() -> Document:
    """A stream with the fields that only a stream from Kafka may have."""
    kafka: Document = {
        "bootstrapServers": "kafka-0.messaging:9092,kafka-1.messaging:9092",
        "topics": ["payments"],
        "startingOffsets": "Latest",
        "keepRecord": True,
        "keepGroupOffsets": ["billing", "reports-*"],
        "maxRecordsPerBatch": 1000,
        "security": _SECURITY,
    }
    fields: Document = {
        "messageId": {"record": "Place"},
        "streamName": {"record": "Key", "default": "payments"},
        "type": {"header": "type", "default": "none"},
        "payload": {"record": "Value"},
    }
    by_pattern: Document = {
        "bootstrapServers": "kafka:9092",
        "topicPattern": "payment-status-.*",
        "security": _BY_TOKEN,
    }
    spec: Document = {
        "table": {"uri": "s3a://lake/payments"},
        "source": {"kafka": kafka},
        "trigger": {"continuous": {"batchInterval": "PT30S"}},
        "envelope": {"format": "Custom", "fields": fields},
        "rateLimit": {"messagesPerSecond": 20_000},
        "lifecycle": {"source": {"kafka": by_pattern}},
    }
    loss = {"records": 4, "at": TIME, "topic": "payments", "partition": 0, "start": 3, "end": 7, "reason": "Retention"}
    return resource("MessageStream", "payments", spec, {"loss": loss})


def stream_of_text() -> Document:
    """A stream of text lines, whose identifiers are URI#offset."""
    lines = {"uri": "file:///data/landing", "format": "Text"}
    spec: Document = {
        "table": {"uri": "file:///data/lines"},
        "source": {"files": {**lines, "maxBytesPerBatch": "1048576", "lastLineTimeout": "PT10S"}},
        "trigger": {"interval": "PT5M"},
        "envelope": {"format": "Custom", "fields": {"category": {"value": "line"}, "payload": {"path": "$"}}},
    }
    return resource("MessageStream", "lines", spec)


def stream_of_shapes() -> Document:
    """A stream with the fields for files and records that others write in their own way."""
    files = {
        "format": "JSON",
        "recordsPaths": ["$.Records", "$['re cords']", "$"],
        "include": ["dt=*/**/*.json", "now/?.json"],
        "exclude": ["**/_*", "**/*.manifest.json"],
    }
    again = {"rereadNonce": 2}
    fields: Document = {
        "messageId": {"path": "$.id"},
        "category": {"value": "change"},
        "time": {"path": "$.ts_ms", "unit": "Milliseconds", "default": "0"},
        "expiresAt": {"file": "Path", "pattern": "until=([0-9]+)/", "unit": "Seconds"},
        "streamId": {"partition": "dt"},
        "correlationId": {"path": "$.id", "in": "Outer", "level": 2},
        "type": {"file": "Name", "pattern": "^([a-z]+)-", "default": "none"},
    }
    headers: Document = {"tenant": {"partition": "tenant"}, "file": {"file": "Place"}, "by": {"value": "us"}}
    headers["region"] = {"path": "$.region", "in": "Document", "default": "none"}
    spec: Document = {
        "table": {"uri": "s3a://lake/changes"},
        "source": {"files": {"uri": "s3a://landing/changes", **files, **again}},
        "trigger": {"manual": {}},
        "envelope": {
            "format": "Custom",
            "unwrap": [{"path": "$.data", "encoding": "Base64"}, {"path": "$.Message", "encoding": "Text"}],
            "fields": fields,
            "addHeaders": headers,
        },
        "lifecycle": {
            "source": {"files": {"uri": "s3a://landing/outcomes", **files}},
            "timeUnit": "Nanoseconds",
            "history": "None",
        },
    }
    return resource("MessageStream", "changes", spec)


def smallest_stream() -> Document:
    """A stream with only the required fields."""
    spec: Document = {
        "table": {"uri": "s3a://lake/small"},
        "source": {"files": {"uri": "s3a://landing/small"}},
        "trigger": {"manual": {}},
    }
    return resource("MessageStream", "small", spec)


def deleting_policy() -> Document:
    """A policy with all fields that a deleting one may have."""
    rules: list[Document] = [
        {"name": "all-conditions", "expired": True, "statuses": ["EXPIRED"], "maxAge": "P30D", "match": _MATCH},
        {"name": "count", "maxMessagesPerStream": 1000},
        {"name": "size", "maxBytes": "500Gi"},
        {"name": "truncate", "truncateBefore": {"streamName": "invoice-7", "position": 40}},
        {"name": "sent", "consumedBy": {"replayJobs": ["relay", "audit"], "consumers": ["billing"]}},
        {"name": "forget", "match": {"correlationIds": ["customer-9"]}, "erase": True},
    ]
    spec: Document = {
        "streamRefs": [{"name": "invoices"}],
        "trigger": {"schedule": {"cron": "0 3 * * *", "timeZone": "UTC", "startingDeadline": "PT2H"}},
        "mode": "Enforce",
        "approval": "Required",
        "rules": rules,
        "action": "Delete",
        "archive": {"uri": "s3a://archive/invoices", "format": "JSONLines", "storage": _STORAGE},
        "erasure": {"within": "P3D"},
        "deadLetters": {"maxAge": "P30D"},
        "suspend": True,
        "spark": _SPARK,
    }
    return resource("RetentionPolicy", "invoices-30-days", spec, _policy_status())


def _policy_status() -> Document:
    preview: Document = {
        "id": "5f0c",
        "tableVersion": 3,
        "asOf": TIME,
        "messages": 4,
        "bytes": 400,
        "oldest": TIME,
        "newest": LATER,
        "byRule": {"count": 4},
        "held": 1,
        "undecided": 1,
        "deadLetters": 1,
        "subscriptions": [{"name": "relay", "globalPosition": 7, "waiting": 2, "waitingSince": TIME, "missed": 1}],
    }
    purge: Document = {
        "run": "invoices-purge-1",
        "preview": "8f14e45f",
        "at": TIME,
        "tableVersionBefore": 3,
        "tableVersionAfter": 5,
        "purged": 4,
        "archived": 4,
        "scrubbed": 0,
        "held": 1,
        "deadLetters": 1,
        "erasedAt": TIME,
        "eraseDueBy": LATER,
        "tombstonesVersion": 2,
        "possibleCopies": ["archives"],
    }
    stream: Document = {
        "name": "invoices",
        "table": _TABLE,
        "preview": preview,
        "lastPurge": purge,
        "currentRun": _CURRENT_RUN,
        "lastRun": _FINISHED_RUN,
        "error": _ERROR,
        "awaitingApproval": True,
        "lastingFailure": {"reason": "StorageDenied", "since": TIME, "attempts": 2},
        "round": 3,
    }
    return {
        "observedGeneration": 1,
        "conditions": [_CONDITION],
        "runNumber": 1,
        "phase": "AwaitingApproval",
        "streams": [stream],
        "streamSummary": "invoices",
        "held": 1,
        "purged": 4,
        "lastPurgeTime": TIME,
        "nextRunTime": LATER,
        "lastScheduleTime": TIME,
        "lastHandledRequest": "once-more",
        "round": 4,
    }


def scrubbing_policy() -> Document:
    """A policy with the fields that only a scrubbing one may have."""
    scrub: Document = {
        "payloadPaths": ["$.customer['full name']", "$.lines[0].note"],
        "metadataPaths": ["$.user"],
        "resultPaths": ["$.customer"],
        "headers": ["X-Customer"],
        "error": True,
        "deadLetters": True,
        "method": "Hash",
        "keySecretRef": {"name": "scrub-key", "key": "hmac"},
    }
    spec: Document = {
        "streamSelector": {"matchLabels": {"team": "billing"}},
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P365D"}],
        "action": "Scrub",
        "scrub": scrub,
    }
    return resource("RetentionPolicy", "scrub-customers", spec)


def replay_to_files() -> Document:
    """A replay with all fields that a replay of messages to files may have."""
    select: Document = {
        "timeWindow": {"from": TIME, "to": LATER},
        "globalPositions": {"from": 1, "to": 500},
        "positions": {"from": 0, "to": 20},
        **{name: values for name, values in _MATCH.items() if name != "sequenceIds"},
        "sequences": {"ids": ["upload-3"], "completeOnly": True, "orOverdue": True},
        "dueForRetry": True,
        "expired": "Skip",
        "limit": 100,
    }
    spec: Document = {
        "streamRef": {"name": "invoices"},
        "origin": "Messages",
        "select": select,
        "order": "Global",
        "destination": {"files": {"uri": "s3a://replay/invoices", "format": "JSONLines", "storage": _STORAGE}},
        "rateLimit": {"messagesPerSecond": 200},
        "mark": {"headers": {"x-replay": "{job}/{run}", "x-from": "{streamName}@{position}"}},
        "mode": "DryRun",
        "onFailed": "Continue",
        "suspend": True,
        "backoffLimit": 1,
        "activeDeadline": "PT2H",
        "ttlAfterFinished": "P1D",
        "spark": _SPARK,
    }
    return resource("ReplayJob", "invoices-again", spec, _replay_status())


def redeliveries() -> list[Document]:
    """Replays that repeatedly send messages due for a retry: one for each trigger."""
    triggers: dict[str, Document] = {
        "schedule": {"cron": "*/5 * * * *", "timeZone": "UTC", "startingDeadline": "PT1H"},
        "manual": {},
    }
    return [_redelivery(name, {name: trigger}) for name, trigger in triggers.items()] + [
        _redelivery("interval", {"interval": "PT1M"})
    ]


def _redelivery(name: str, trigger: Document) -> Document:
    spec: Document = {
        "streamRef": {"name": "invoices"},
        "select": {"dueForRetry": True},
        "destination": {"files": {"uri": "s3a://replay/invoices"}},
        "trigger": trigger,
    }
    return resource("ReplayJob", f"invoices-{name}", spec, _replay_status())


def subscriptions() -> list[Document]:
    """Replays that go on behind a cursor: one for each start."""
    starts: dict[str, Document] = {
        "beginning": {"at": "Beginning"},
        "position": {"globalPosition": 7},
        "time": {"insertedAt": TIME},
    }
    going_on = _subscription("continuous", {"at": "Now"})
    going_on["spec"] |= {
        "select": {"sequences": {"completeOnly": True}},
        "destination": {"kafka": {"bootstrapServers": "kafka:9092", "topic": "invoices"}},
        "trigger": {"continuous": {}},
    }
    answers = _subscription("answers", {"at": "Now"})
    topic_from: Document = {"replyTo": True, "pattern": "answers[.].*"}
    answers["spec"]["destination"] = {"kafka": {"bootstrapServers": "kafka:9092", "topicFrom": topic_from}}
    whole = _subscription("sequences", {"at": "Beginning"})
    whole["spec"] |= {"order": "Sequence", "select": {"sequences": {"completeOnly": True, "orOverdue": True}}}
    return [*(_subscription(name, start) for name, start in starts.items()), whole, answers, going_on]


def _subscription(name: str, start: Document) -> Document:
    spec: Document = {
        "streamRef": {"name": "invoices"},
        "start": start,
        "select": {"categories": ["invoice"]},
        "destination": {"files": {"uri": "s3a://replay/invoices"}},
        "trigger": {"interval": "PT1M"},
    }
    return resource("ReplayJob", f"invoices-from-{name}", spec, _replay_status())


def _replay_status() -> Document:
    return {
        "nextRunTime": LATER,
        "lastScheduleTime": TIME,
        "lastHandledRequest": "once more",
        "round": 2,
        "replayedTotal": 12,
        "destinations": [
            {
                "name": "audit",
                "cursor": {
                    "globalPosition": 812,
                    "resets": 1,
                    "missed": 2,
                    "erased": 3,
                    "expired": 4,
                    "waiting": 2,
                    "firstWaiting": 701,
                },
                "lag": {"asOf": TIME, "records": 3, "oldestPendingTime": TIME},
                "failure": {
                    "reason": "TopicMissing",
                    "message": "there is no topic",
                    "since": TIME,
                    "lastAttemptTime": LATER,
                    "attempts": 2,
                    "generation": 1,
                    "retryRequested": True,
                },
                "conditions": [_CONDITION],
            }
        ],
        "lastHandledReset": "Beginning",
        "recentRuns": [_FINISHED_RUN],
        "observedGeneration": 1,
        "conditions": [_CONDITION],
        "runNumber": 1,
        "phase": "Running",
        "findings": ["topic invoices has records"],
        "selection": {
            "tableVersion": 3,
            "messages": 10,
            "bytes": 1000,
            "firstGlobalPosition": 2,
            "lastGlobalPosition": 12,
        },
        "progress": {
            "replayed": 5,
            "failed": 1,
            "percent": 60,
            "lastGlobalPosition": 7,
            "messagesPerSecond": 12.5,
            "firstFailedPositions": [7],
            "stored": 3,
            "deadLettered": 1,
            "duplicates": 1,
            "erased": 1,
            "lost": 2,
            "missed": 4,
            "withheld": 5,
            "expired": 6,
            "setAside": 7,
            "firstLostPositions": [8, 9],
        },
        "table": _TABLE,
        "targetTable": _TABLE,
        "destination": "s3a://replay/invoices",
        "currentRun": _CURRENT_RUN,
        "lastRun": _FINISHED_RUN,
        "attempts": 1,
        "lastingFailure": {"reason": "StorageDenied", "since": TIME, "attempts": 2},
        "failures": 1,
        "error": _ERROR,
        "startedAt": TIME,
        "finishedAt": LATER,
        "pausedAt": TIME,
        "pausedSeconds": 60,
    }


def replay_to_kafka() -> Document:
    """A replay to a topic."""
    kafka: Document = {"bootstrapServers": "kafka:9092", "topic": "invoices", "key": "messageId", "security": _SECURITY}
    destination: Document = {"kafka": kafka, "envelope": "CloudEventsBinary"}
    return resource("ReplayJob", "invoices-to-kafka", {"streamRef": {"name": "invoices"}, "destination": destination})


def replay_with_tokens() -> Document:
    """A replay that puts a topic back, and gets tokens."""
    document = replay_to_kafka()
    document["metadata"]["name"] = "invoices-with-tokens"
    document["spec"]["destination"]["envelope"] = "Original"
    document["spec"]["destination"]["kafka"] |= {"createTopic": True, "security": deepcopy(_BY_TOKEN)}
    return document


def replay_to_http() -> Document:
    """A subscription of an HTTP endpoint with all fields that it may have."""
    delivery: Document = {
        "retry": 3,
        "backoffDelay": "PT2S",
        "maxBackoff": "PT2M",
        "timeout": "PT10S",
        "retryAfterMax": "PT1M",
        "deadLetter": {"files": {"uri": "s3a://refused/invoices", "storage": _STORAGE}},
    }
    http: Document = {
        "url": "https://events.example.org:8443/invoices?source=store",
        "maxInFlight": 4,
        "delivery": delivery,
        "headerSecretRef": {"name": "events-token", "key": "token", "header": "Authorization"},
        "caSecretRef": {"name": "events-ca", "key": "ca.pem"},
    }
    spec: Document = {
        "streamRef": {"name": "invoices"},
        "start": {"at": "Now"},
        "trigger": {"interval": "PT1M"},
        "destination": {"http": http, "envelope": "CloudEventsBinary"},
    }
    return resource("ReplayJob", "invoices-to-http", spec)


def replay_by_routes() -> Document:
    """A subscription with several destinations, one of each kind."""
    http = replay_to_http()["spec"]["destination"]["http"]
    eu: Document = {
        "name": "eu",
        "where": "headers['region'] = 'eu'",
        "start": {"globalPosition": 7},
        **deepcopy(replay_to_kafka()["spec"]["destination"]),
    }
    topic_from: Document = {"header": "topic", "pattern": "answers[.].*"}
    named: Document = {"bootstrapServers": "kafka:9092", "topicFrom": topic_from}
    audit: Document = {"uri": "s3a://audit/invoices", "format": "JSONLines", "storage": _STORAGE}
    spec: Document = {
        "streamRef": {"name": "invoices"},
        "start": {"at": "Beginning"},
        "trigger": {"interval": "PT1M"},
        "destinations": [
            eu,
            {"name": "hook", "where": "type = 'InvoicePaid'", "http": http, "envelope": "CloudEvents"},
            {"name": "audit", "files": audit, "envelope": "CloudEvents"},
            {"name": "named", "where": "type = 'Asked'", "kafka": named},
            {"name": "rest", "otherwise": True, "stream": {"name": "others"}},
        ],
    }
    return resource("ReplayJob", "invoices-by-route", spec)


def redrive() -> Document:
    """A replay of dead letters into their own stream."""
    spec: Document = {
        "streamRef": {"name": "invoices"},
        "origin": "DeadLetters",
        "select": {"reasons": ["MissingField"], "limit": None},
        "destination": {"stream": {"name": "invoices"}},
    }
    return resource("ReplayJob", "invoices-redrive", spec)


def all_resources() -> list[Document]:
    """All of them."""
    return [
        stream_from_files(),
        stream_from_kafka(),
        stream_of_text(),
        stream_of_shapes(),
        smallest_stream(),
        deleting_policy(),
        scrubbing_policy(),
        replay_to_files(),
        replay_to_kafka(),
        replay_to_http(),
        replay_with_tokens(),
        replay_by_routes(),
        redrive(),
        *redeliveries(),
        *subscriptions(),
    ]
