"""The configuration: one pydantic tree that params.yaml loads into, and the graph of stages that follows from it.

`folders` needs no pydantic; import the modules one by one.
"""
