"""How journals are made, changed and deleted in the KeySpace, and the rules for it."""
