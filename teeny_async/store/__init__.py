"""Where results are kept between runs: a narrow protocol and the stores behind it."""
