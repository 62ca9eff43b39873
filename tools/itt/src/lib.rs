// Only its dependencies' sources are wanted.
