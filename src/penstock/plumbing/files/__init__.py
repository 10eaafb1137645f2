"""Files of the data folder: room is reserved before bytes are taken, and bytes that cannot be read are kept."""
