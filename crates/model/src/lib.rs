//! The nouns: identities, values, states and their legal moves.
