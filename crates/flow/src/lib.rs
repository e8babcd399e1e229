//! From an author's text to a checked release, or a diagnostic that points.
