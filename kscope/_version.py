"""The version, in a module of its own: whoever writes it into a result need not import the package's front."""

__version__ = "0.1.0"
