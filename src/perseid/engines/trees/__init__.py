"""Tree patterns over documents, in one pass over their bytes."""
