"""What adjoin raises on purpose."""


class Error(Exception):
    """The root of everything that adjoin raises on purpose."""


class InvalidArgument(Error, ValueError):
    """The caller's mistake, found before anything is sent or written."""


class CommunicationError(Error, RuntimeError):
    """A peer, the network or a deadline; a deadlock, or calls that do not match."""


class IoError(Error, OSError):
    """A disk or file that fails under a right request."""


class InternalError(Error, RuntimeError):
    """adjoin's own mistake; please report it."""


for _class in (Error, InvalidArgument, CommunicationError, IoError, InternalError):
    _class.__module__ = "adjoin"
