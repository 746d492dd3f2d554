"""The operator under load: a thousand streams and their policies against a real kube-apiserver, Spark faked.

Beside the operator run the API server, its etcd, and the fakes of what Kubernetes and Spark would do, each in a process
of its own. All figures of requests are the API server's, from its audit log.
"""

import sys
from pathlib import Path

# What tests share; pytest finds it by its configuration, and nothing else does.
sys.path.insert(0, str(Path(__file__).parents[2]))
