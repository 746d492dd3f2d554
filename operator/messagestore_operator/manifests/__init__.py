"""Reads and checks manifests; each problem has its file, line and field."""

from messagestore_operator.manifests.load import LoadResult, load
from messagestore_operator.manifests.problem import Problem
from messagestore_operator.manifests.references import Loaded
from messagestore_operator.manifests.secrets import Secret

__all__ = ["LoadResult", "Loaded", "Problem", "Secret", "load"]
