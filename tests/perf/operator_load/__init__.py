"""The operator under load: a thousand streams and their policies on a real kube-apiserver, with fake Spark.

The operator, the API server, its etcd, and the fakes of Kubernetes and Spark each run in their own process. All figures
about requests are from the API server's audit log.
"""

import sys
from pathlib import Path

# The tests' support; pytest finds it by its configuration, other programs don't.
sys.path.insert(0, str(Path(__file__).parents[2]))
