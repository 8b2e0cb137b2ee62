"""The PyTorch worker of StateSet Agents: it holds arithmetic and nothing else. Learning is TypeScript, at the other end of a socket."""

# Equal to the version of the npm package it speaks with; a worker of another version is refused when it greets.
__version__ = "0.1.0"
