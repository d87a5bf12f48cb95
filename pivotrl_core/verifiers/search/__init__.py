"""Browsing and search: queries, pages, places in pages and answers, compared by what they ask for and say."""
