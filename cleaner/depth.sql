-- Count all tasks by queue, kind and state. Returns whether a count has changed.
SELECT tenon.count_depth();
