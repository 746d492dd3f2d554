"""Ingest: from records of sources to rows of ``messages``, each message once, in order of arrival."""
