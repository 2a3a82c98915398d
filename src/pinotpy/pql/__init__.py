"""Floor 2: text of PQL and SQL ⇄ one AST. Knows only errors.

Reading order: ast, lexer, expressions, statements (one per dialect), parser (the door: `parse_pql`, `parse_sql`),
printer.
"""
