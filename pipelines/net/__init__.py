"""Sockets, DNS, WARC bytes and the clock: the only rooms that touch the world."""
