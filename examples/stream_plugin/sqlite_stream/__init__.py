"""An example of a stream plug-in: topics are SQLite files. docs/stream-plugin.md goes through it."""
