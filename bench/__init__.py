"""regard beside its peers: `python -m bench --help`.

Nothing is installed. Every figure is one of several, taken in turn with those of the peers
(A B C A B C ...), each contender in a process of its own.
"""
