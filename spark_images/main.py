"""What Spark is given as the driver's program: the jobs' own driver."""

import runpy

if __name__ == "__main__":
    runpy.run_module("messagestore_jobs.driver", run_name="__main__", alter_sys=True)
