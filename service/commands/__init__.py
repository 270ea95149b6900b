"""What `regard` can be asked to do; each module adds its commands to the program."""
