"""Files that Hadoop makes on this machine."""

from pathlib import Path

from pyspark.sql import SparkSession


def test_files_and_folders_get_the_permissions_that_are_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    hadoop = spark._jvm.org.apache.hadoop.fs
    inner = hadoop.Path(f"file://{tmp_path}/outer/ä %20")
    files = inner.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    files.mkdirs(inner, hadoop.permission.FsPermission("700"))
    made = tmp_path / "outer/ä %20"
    assert made.stat().st_mode & 0o777 == 0o700
    file = hadoop.Path(inner, "file")
    files.create(file).close()
    assert (made / "file").stat().st_mode & 0o777 == 0o644
    files.setPermission(file, hadoop.permission.FsPermission("640"))
    assert (made / "file").stat().st_mode & 0o777 == 0o640
