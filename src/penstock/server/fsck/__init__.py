"""`penstock fsck`: a look at every file of a data folder, and at the objects of a lake. It only reads."""
