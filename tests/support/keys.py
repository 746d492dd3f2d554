"""Keys that the tests' shared JVM has from its start, like a pod's."""

from messagestore_operator.translate.secrets import key_variable

VARIABLE, KEY = "MESSAGESTORE_KEY_TEST", "a key"

HUSH = "hush-hush"
"""The value of Secret `key`, key `key`, in tests of local runs."""

ENVIRONMENT = {
    VARIABLE: KEY,
    key_variable("default", "key", "key").variable: HUSH,
    # From examples/privacy.
    key_variable("default", "scrub-key", "key").variable: "correct horse battery staple",
    # From examples/every-field.
    key_variable("default", "orders-seal", "key").variable: "correct horse battery staple",
}
