"""A language model as judge: what it is asked, how its answer is read, and through what it is asked."""
