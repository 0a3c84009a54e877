"""Every rule of the crawl, pure: facts come in, decisions go out."""
