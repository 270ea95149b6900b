"""The version of the client, which is that of the server it was released with."""

VERSION = "0.2.0.dev0"
