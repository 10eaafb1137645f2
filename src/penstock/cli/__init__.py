"""The command line: `penstock NOUN VERB`, one file per noun."""
