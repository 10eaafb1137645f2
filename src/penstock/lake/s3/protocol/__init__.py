"""S3 on the wire: signatures, chunks, checksums and errors."""
