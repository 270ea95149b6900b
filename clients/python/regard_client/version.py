"""The version of the client, which is that of the server it was made with."""

VERSION = "0.2.0.dev0"
