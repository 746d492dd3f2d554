import pytest
from pydantic import ValidationError

from messagestore_operator.api.spark import Spark
from messagestore_operator.api.spark_conf import ALLOWED_CONF, FORMS

TAKEN = {
    "spark.sql.adaptive.enabled": ["true", "false"],
    "spark.task.maxFailures": ["1", "99"],
    "spark.dynamicAllocation.minExecutors": ["0", "9999"],
    "spark.sql.shuffle.partitions": ["1", "99999"],
    "spark.rpc.message.maxSize": ["1", "128", "2047"],
    "spark.sql.files.maxRecordsPerFile": ["0", "999999999999"],
    "spark.memory.fraction": ["0", "0.6", "1", "1.0"],
    "spark.executor.memoryOverheadFactor": ["0.1", "1.5", "9"],
    "spark.network.timeout": ["120", "120s", "500ms", "2min", "1h"],
    "spark.executor.memoryOverhead": ["512", "512m", "2g", "2G", "2gb"],
    "spark.sql.autoBroadcastJoinThreshold": ["-1", "0", "10MB"],
    "spark.io.compression.codec": ["lz4", "zstd"],
}

REFUSED = {
    "spark.sql.adaptive.enabled": ["", "TRUE", "yes", "1"],
    "spark.task.maxFailures": ["0", "100", "4.0", "-1"],
    "spark.dynamicAllocation.minExecutors": ["-1", "10000", "00"],
    "spark.sql.shuffle.partitions": ["0", "100000", "1e3", "\u0661"],
    "spark.rpc.message.maxSize": ["0", "2048", "3000"],
    "spark.sql.files.maxRecordsPerFile": ["-1", "1000000000000"],
    "spark.memory.fraction": ["1.1", ".5", "0.", "1.01"],
    "spark.executor.memoryOverheadFactor": ["10", "-0.1"],
    "spark.network.timeout": ["-1s", "1 s", "1 week", "10000000000s"],
    "spark.executor.memoryOverhead": ["0", "2 g", "2x", "-1"],
    "spark.sql.autoBroadcastJoinThreshold": ["-2", "ten"],
    "spark.io.compression.codec": ["gzip", "org.example.Codec"],
}

FREE_TEXT = ["${env:HOME}", "${spark.master}", "1\n", "\n1", "x", "true or false", "64m; rm -rf /", " 1", "1 "]


def test_every_form_is_shown() -> None:
    assert {id(ALLOWED_CONF[name]) for name in TAKEN} == {id(form) for form in FORMS}
    assert TAKEN.keys() == REFUSED.keys()


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in TAKEN.items() for value in values])
def test_a_value_of_the_form_is_taken(name: str, value: str) -> None:
    assert Spark(conf={name: value}).conf == {name: value}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_a_value_of_another_form_is_refused_with_what_is_expected(name: str, value: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Spark(conf={name: value})
    assert name in str(caught.value)
    assert ALLOWED_CONF[name].words in str(caught.value)


@pytest.mark.parametrize("name", ALLOWED_CONF)
def test_no_setting_takes_free_text(name: str) -> None:
    for value in FREE_TEXT:
        with pytest.raises(ValidationError, match="the value must be"):
            Spark(conf={name: value})
