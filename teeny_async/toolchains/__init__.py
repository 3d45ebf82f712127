"""One small file a tool: plan a request, judge how it ended. No tool runs here."""
