"""The embedded KeySpace: SQLite in a folder, shared by the processes of one machine."""
