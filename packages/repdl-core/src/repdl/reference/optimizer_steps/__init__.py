"""Steps of optimizers: contract texts as plain Python."""
