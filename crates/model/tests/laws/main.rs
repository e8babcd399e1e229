//! What holds for all identities, keys, fingerprints, spans and states.

mod identities;
mod payloads;
mod states;
mod times;
