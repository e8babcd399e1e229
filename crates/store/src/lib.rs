//! PostgreSQL: every statement, every migration, the clock.
