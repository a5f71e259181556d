"""The words of Spark SQL that expressions are written in: each as exact as the reference, none that can raise."""
