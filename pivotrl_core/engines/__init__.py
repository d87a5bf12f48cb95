"""Engines: where tokens come from. One protocol; the embedded engine runs transformers in this process."""
