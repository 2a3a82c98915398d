"""Star-trees in queries: which tree fits (`choose`), which of its records are read (`walk`), and plans over them."""
