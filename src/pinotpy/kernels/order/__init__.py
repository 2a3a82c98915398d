"""Which rows come first?

Sort keys of several columns as words that compare as the values do, the best rows of a scan in a heap, and the
threshold that lets a scan leave out rows that cannot be among them.

Read first: `sort_keys`, then `top_n`, then `top_n_threshold`.
Must not know groups: the best groups are in `group/top_n_groups`.
Background: Graefe, "Implementing Sorting in Database Systems" (2006), on normalised keys.
"""
