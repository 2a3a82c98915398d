"""Work that the lead controller does again and again: one task a file, run by `scheduler`.

A task says what it does for one table; the scheduler asks every table, so that a table that fails costs no other its
turn.
"""
