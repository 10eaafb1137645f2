"""The quorum log: an epoch-fenced log with a limbo. Design: quorum-log.md."""
