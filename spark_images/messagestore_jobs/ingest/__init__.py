"""Ingest: from files to rows of ``messages``, each message once, in order of arrival."""
