"""What related tasks share."""
