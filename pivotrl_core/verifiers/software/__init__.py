"""Software engineering: calls of agents that edit, run, read and search a repository, compared by what they do."""
