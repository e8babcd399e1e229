//! Signing in to the console.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A code that signs one browser in to the console, once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInCode {
    /// The code itself: it is stored nowhere.
    pub code: String,
    /// Where to use it on the server, with the code behind `#`, which no server log shows.
    pub path: String,
    /// The same on the address that the installation is configured with.
    pub url: String,
    /// When it stops working.
    pub expires_at: Timestamp,
}

/// Without the code itself.
impl fmt::Debug for SignInCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SignInCode");
        shown
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}
