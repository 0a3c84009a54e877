"""Extract: from sealed WARC files to the table `pages`, what each stored page says."""
