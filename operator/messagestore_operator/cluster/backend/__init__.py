"""How a run becomes pods: a small interface, implemented with Kubeflow's Spark operator."""

from messagestore_operator.cluster.backend.base import Launch, RunParts, SparkBackend
from messagestore_operator.cluster.backend.kubeflow import KubeflowBackend

__all__ = ["KubeflowBackend", "Launch", "RunParts", "SparkBackend"]
