"""Tables in shared memory of the first of as many places as an index may say."""
