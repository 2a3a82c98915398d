"""Floor 7: the command line; one command a file in commands/, found by scanning the folder. Knows everything."""
