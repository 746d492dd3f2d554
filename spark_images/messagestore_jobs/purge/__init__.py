"""Purge: remove or scrub messages exactly as previewed, and note it in the audit.

The selection is frozen before anything changes, and all later steps go by it. So the next run, of any policy, can
continue a purge that broke off anywhere. Each step may be repeated.
"""
