"""One command a file: each module has `NAME`, its first docstring line is the menu text, `run` is the typer
function.
"""
