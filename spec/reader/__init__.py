"""The reader's test: change one word of the table and see who complains."""
