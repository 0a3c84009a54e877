"""Seeds: from files, standard input and arguments into the lake's inbox."""
