"""How does a user's own function become one of ours?

`user_functions` is what users import (`@udf`), `user_function_adapter` binds types, nulls and batches.

Read first: `user_functions`.
Must not know: queries.
Background: docs/user-functions.md.
"""
