"""Download JUnit's console into the project's cache folder, once, and print its folder."""

import sys
from pathlib import Path

from tools.maven import jars_folder

if __name__ == "__main__":
    sys.stdout.write(f"{jars_folder('junit-6.0.1', Path(__file__).with_name('pom.xml'))}\n")
