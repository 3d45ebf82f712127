"""What a person sees: progress, tables, file names."""
