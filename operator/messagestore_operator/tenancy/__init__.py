"""What the operator's settings allow tenants: those who may create the three kinds in a namespace."""

from messagestore_operator.tenancy.check import not_allowed
from messagestore_operator.tenancy.settings import Tenancy
from messagestore_operator.tenancy.storage import StorageBounds

__all__ = ["StorageBounds", "Tenancy", "not_allowed"]
