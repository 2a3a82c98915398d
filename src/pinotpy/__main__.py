"""`python -m pinotpy` is the command line."""

from pinotpy.cli.main import main

main()
