//! What survives crashes.

mod ground;
