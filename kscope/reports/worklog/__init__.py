"""Worklogs and checklists for people and programs."""
