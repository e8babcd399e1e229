//! What holds for all identities, keys, fingerprints, spans and states.

#![expect(clippy::unwrap_used, reason = "a law that cannot be set up fails")]

mod identities;
mod payloads;
mod states;
mod times;
