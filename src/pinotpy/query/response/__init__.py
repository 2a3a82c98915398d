"""Answers as JSON: one writer per dialect over the same ReducedResult; text.py has the number texts of the reference."""
