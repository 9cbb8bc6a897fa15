"""What each command does, one file each; imported when the command is called."""
