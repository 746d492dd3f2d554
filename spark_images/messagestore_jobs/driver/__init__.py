"""One run, from its document to its report: carried out here for local runs, and by this package's main in a pod."""
