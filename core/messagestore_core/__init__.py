"""What operator, jobs and library share: run document and report, the language of predicates, the store on disk."""
