"""Paper 1's experiment: tree patterns over large documents, compared with parsers and XPath."""
