"""Report: tables and figures of a lake, for notebooks, the HTML page and the archivists' crawl reports."""
