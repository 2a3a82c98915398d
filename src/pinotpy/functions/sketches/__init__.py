"""Sketches: how each kind hashes values, keeps them in state columns, is merged, read and serialized. numpy and Arrow
only.
"""
