"""What a user is told when something cannot be done: one sentence with what, where and the remedy."""

from __future__ import annotations


class Failure(Exception):
    """It could not be done; the message is the sentence for the user. The command ends with `exit_code`."""

    exit_code = 1


class Misuse(Failure):
    """It was asked for in a way that cannot work: a wrong option, setting or file."""

    exit_code = 2


class Stopped(Failure):
    """The user stopped it (Ctrl-C)."""

    exit_code = 130
