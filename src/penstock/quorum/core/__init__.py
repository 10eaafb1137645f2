"""The quorum log: an epoch-fenced replicated log with the limbo on its leader. Design: quorum-log.md."""
