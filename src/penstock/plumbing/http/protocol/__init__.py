"""HTTP/1.1 on one connection: bytes to requests, answers to bytes, and how long a client may take."""
