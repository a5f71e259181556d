"""Paper 1's experiment: tree patterns over large documents, beside parsers and XPath."""
