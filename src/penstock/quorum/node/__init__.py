"""The quorum log's runtime: nodes and operators as real processes, on the wire, the WAL and the KeySpace."""
