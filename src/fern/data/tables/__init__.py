"""Tables as they come: files, dialects, roles of columns, time stamps and their grids."""
