"""Big jobs over trees of the lake: differences, garbage, imports."""
