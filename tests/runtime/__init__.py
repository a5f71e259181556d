"""Tests of what engines share."""
