"""What others reach us by: HTTP for programs (REST, S3, the journal gateway), and pages for people."""
