"""What the project needs on a machine besides Python packages: programs from Go modules, a cluster, images.

Run from the repository's root as ``python3 -m hack.NAME``. It uses only the standard library, so that it works before
the project is installed.
"""
