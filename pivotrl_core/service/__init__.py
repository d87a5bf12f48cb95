"""Verdicts over HTTP: a service that grades for other machines, and the verifier that asks it."""
