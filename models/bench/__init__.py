"""Speed of the models compared with their literal forms and with the best that the machine can do."""
