"""The KeySpace: which member serves which item. The core is pure; the shell runs it over SQLite or etcd."""
