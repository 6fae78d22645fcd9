"""Exercises made of the reader's own graphs: quiz, worksheet, bug hunt."""
