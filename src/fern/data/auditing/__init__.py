"""What is wrong with a table: scans of its columns, judged by a policy."""
