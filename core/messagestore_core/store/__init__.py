"""The store on disk: every read and write of the tables in one folder."""
