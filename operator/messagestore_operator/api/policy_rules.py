"""Validation rules of a RetentionPolicy."""

from messagestore_operator.api.rules import ValidationRule, count_given, exactly_one

POLICY_TRIGGER = exactly_one("schedule", "manual")
CONSUMED_BY = (
    ValidationRule(
        message="give replayJobs or consumers, or both: without a name there is nobody to wait for",
        cel="self.replayJobs.size() > 0 || self.consumers.size() > 0",
        holds=lambda consumed: bool(consumed.replay_jobs or consumed.consumers),
    ),
)
POLICY_RULE = (
    ValidationRule(
        message="give at least one of expired, statuses, maxAge, maxMessagesPerStream, maxBytes, truncateBefore, match "
        "and consumedBy",
        cel=(
            "self.expired || self.statuses.size() > 0 || has(self.maxAge) || has(self.maxMessagesPerStream)"
            " || has(self.maxBytes) || has(self.truncateBefore) || has(self.match) || has(self.consumedBy)"
        ),
        holds=lambda rule: (
            rule.expired
            or len(rule.statuses) > 0
            or count_given(
                rule,
                ("max_age", "max_messages_per_stream", "max_bytes", "truncate_before", "match", "consumed_by"),
            )
            > 0
        ),
    ),
    ValidationRule(
        message="erase goes without consumedBy: no subscription or consumer delays an erasure",
        cel="!self.erase || !has(self.consumedBy)",
        holds=lambda rule: not rule.erase or rule.consumed_by is None,
    ),
)
SCRUB = (
    ValidationRule(
        message="give at least one of payloadPaths, metadataPaths, resultPaths, headers and error: "
        "there would be nothing to scrub",
        cel="self.payloadPaths.size() > 0 || self.metadataPaths.size() > 0 || self.resultPaths.size() > 0 || "
        "self.headers.size() > 0 || self.error",
        holds=lambda scrub: any(
            (scrub.payload_paths, scrub.metadata_paths, scrub.result_paths, scrub.headers, scrub.error)
        ),
    ),
    ValidationRule(
        message="method Hash needs keySecretRef",
        cel="self.method != 'Hash' || has(self.keySecretRef)",
        holds=lambda scrub: scrub.method != "Hash" or scrub.key_secret_ref is not None,
    ),
)
POLICY = (
    ValidationRule(
        message="give exactly one of streamRefs and streamSelector",
        cel="(self.streamRefs.size() > 0) != has(self.streamSelector)",
        holds=lambda spec: (len(spec.stream_refs) > 0) != (spec.stream_selector is not None),
    ),
    ValidationRule(
        message="give at least one of rules and deadLetters: nothing would ever leave the store",
        cel="self.rules.size() > 0 || has(self.deadLetters)",
        holds=lambda spec: len(spec.rules) > 0 or spec.dead_letters is not None,
    ),
    ValidationRule(
        message="action Scrub needs scrub",
        cel="self.action != 'Scrub' || has(self.scrub)",
        holds=lambda spec: spec.action != "Scrub" or spec.scrub is not None,
    ),
    ValidationRule(
        message="action Scrub removes no message, so there is nothing to archive: leave archive out",
        cel="self.action != 'Scrub' || !has(self.archive)",
        holds=lambda spec: spec.action != "Scrub" or spec.archive is None,
    ),
    ValidationRule(
        message="action Scrub keeps the row that erase removes: move such rules to a policy with action Delete",
        cel="self.action != 'Scrub' || !self.rules.exists(rule, rule.erase)",
        holds=lambda spec: spec.action != "Scrub" or not any(rule.erase for rule in spec.rules),
    ),
)
