//! The wire: request and response types, and the client that speaks them.
