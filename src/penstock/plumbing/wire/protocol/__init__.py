"""The wire without I/O: frames and their parser, the flow of a stream, the hello."""
