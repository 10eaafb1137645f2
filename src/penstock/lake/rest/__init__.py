"""The lake on HTTP: lakeFS's REST API and S3's, on one port."""
