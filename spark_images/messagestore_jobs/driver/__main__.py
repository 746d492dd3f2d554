"""The entry point of a pod: ``python -m messagestore_jobs.driver``."""

import sys

from messagestore_jobs.driver.main import main

sys.exit(main())
