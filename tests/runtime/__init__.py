"""Tests of the runtime that all engines share."""
