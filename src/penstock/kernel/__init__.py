"""What every layer shares: ids, errors, effects, codecs."""
