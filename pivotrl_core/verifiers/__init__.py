"""Verifiers: is an action functionally interchangeable with the expert's? One file per domain, one protocol."""
