//! The variant `Unavailable` that the errors of commands and of intake share: the database did not
//! answer, or not in time.

/// Converts what the store reports of a database that does not answer into an error's variant
/// `Unavailable`.
macro_rules! unavailable_from_store {
    ($error:ty) => {
        impl From<semel_store::ReadError> for $error {
            fn from(error: semel_store::ReadError) -> Self {
                Self::Unavailable(error.to_string())
            }
        }

        impl From<semel_store::writer::WriteError> for $error {
            fn from(error: semel_store::writer::WriteError) -> Self {
                Self::Unavailable(error.to_string())
            }
        }
    };
}

pub(crate) use unavailable_from_store;
