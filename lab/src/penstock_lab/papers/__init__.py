"""Files that repeat the code, written from the code: stubs of blocking classes, and the page of the Python API."""
