"""The objects and functions that users import from :mod:`perseid`."""
