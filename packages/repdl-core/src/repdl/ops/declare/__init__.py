"""How ops are declared: what all registrations of a form share."""
