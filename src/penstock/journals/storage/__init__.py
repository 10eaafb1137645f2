"""Fragments in object stores: codecs and transfers. Brokers write fragments; clients and Spark read them."""
