"""The world of the lake: shipped members, REST and S3 front ends, and the shipped client."""
