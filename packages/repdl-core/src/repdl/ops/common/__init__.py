"""What functions of several families share."""
