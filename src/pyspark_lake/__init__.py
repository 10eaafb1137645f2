"""Where PySpark finds the format `lake` by itself. One such module which fails to import hides all of them."""
