"""Reads and checks manifests; each problem has its file, line and field."""

from messagestore_operator.manifests.load import Loaded, LoadResult, Secret, load, load_text
from messagestore_operator.manifests.problem import Problem

__all__ = ["LoadResult", "Loaded", "Problem", "Secret", "load", "load_text"]
