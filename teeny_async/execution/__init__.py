"""Processes on this machine: run an action, find a tool, and leave nothing behind."""
