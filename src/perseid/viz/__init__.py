"""What a pattern looks like and what it will do, for people."""
