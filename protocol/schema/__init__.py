"""How messages are declared, encoded and decoded.

declaration  the language: classes whose annotations say how a field travels
codec        messages to bytes and back, by functions compiled at first use
encoder      writes the function that encodes one version of a message
decoder      writes the function that decodes one version of a message
source       the source of such a function, while it is written
"""
