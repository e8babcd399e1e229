//! Semel over its real surfaces beside bare PostgreSQL, in one run.
fn main() {}
