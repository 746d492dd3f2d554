"""Download the jars of a Kafka broker into the project's cache folder, once, and print their folder."""

import sys
from pathlib import Path

from tools.maven import jars_folder

if __name__ == "__main__":
    sys.stdout.write(f"{jars_folder('kafka-4.1.0', Path(__file__).with_name('pom.xml'))}\n")
