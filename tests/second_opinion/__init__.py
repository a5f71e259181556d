"""Independent evaluators, written from the documentation alone, that check the results of the product."""
