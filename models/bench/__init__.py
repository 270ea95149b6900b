"""How fast the models are beside the forms their authors wrote, and beside what the machine could do at best."""
