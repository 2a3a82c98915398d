"""Pushes: packed segments on any file system become segments of a table.

`push.push` is the place to start reading: look at every archive (`sources`), find the clusters behind the controllers
(`clusters`), leave out what is there already, send the rest in parallel (`sending`), swap it in at once where it
replaces (`replacing`), and say what happened (`report`).
"""
