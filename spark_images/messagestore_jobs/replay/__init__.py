"""Replay: send a chosen part of the past somewhere again, each message once, over any crash."""
