"""Writes stubs, the page of the API and the table of attacks: `python -m penstock_lab.papers`."""

from penstock_lab.papers import api_page, reliability, stubs

stubs.write()
api_page.write()
reliability.write()
