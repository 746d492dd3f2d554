"""Keys that the shared JVM of tests knows from its start, as a pod's does."""

from messagestore_operator.translate.secrets import key_variable

VARIABLE, KEY = "MESSAGESTORE_KEY_TEST", "a key"

HUSH = "hush-hush"
"""The value of Secret `key`, key `key`, in tests of local runs."""

ENVIRONMENT = {
    VARIABLE: KEY,
    key_variable("default", "key", "key").variable: HUSH,
    # Of examples/privacy.
    key_variable("default", "scrub-key", "key").variable: "correct horse battery staple",
}
