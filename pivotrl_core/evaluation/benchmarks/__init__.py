"""One file per benchmark. They share no code with each other: mechanics that several need are in `evaluation/`."""
