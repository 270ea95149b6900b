"""Units that several parts count in."""

MB = 2**20
SECONDS_A_DAY = 86_400
