"""Writes the stubs and the page of the API: `python -m penstock_lab.papers`."""

from penstock_lab.papers import api_page, stubs

stubs.write()
api_page.write()
