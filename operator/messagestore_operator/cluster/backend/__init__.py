"""How a run becomes pods: one small interface, and kubeflow's Spark operator behind it."""

from messagestore_operator.cluster.backend.base import Launch, RunParts, SparkBackend
from messagestore_operator.cluster.backend.kubeflow import KubeflowBackend

__all__ = ["KubeflowBackend", "Launch", "RunParts", "SparkBackend"]
