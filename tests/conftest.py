"""What all tests have in common."""

from hypothesis import settings

# A busy machine is no fault of the code.
settings.register_profile("messagestore", deadline=None)
settings.load_profile("messagestore")
