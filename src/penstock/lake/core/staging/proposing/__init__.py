"""The member: proposes commits, sends records again, and answers once they are final."""
