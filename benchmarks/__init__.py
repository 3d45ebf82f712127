"""What teeny_async costs, as ratios to the tools that people use now and to what the machine can do at best.

python -m benchmarks --quick

See README.md beside this file for what is measured and how.
"""
