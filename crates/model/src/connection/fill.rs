//! Putting a connection together, field by field, from a preset, a file or the command line.

use serde_json::{Map, Value};

use super::Connection;

/// Fields that were renamed before the first release, and what they are called now.
const RENAMED: [(&str, &str); 6] = [
    ("honours_keys", "idempotency_keys.window"),
    ("key_as", "idempotency_keys.as"),
    ("to.http.sign_in", "to.http.auth"),
    ("limits.at_once", "limits.concurrency"),
    ("limits.break_after", "limits.open_after"),
    ("limits.break_for", "limits.open_for"),
];

/// Why a connection could not be put together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// A path leads through something that is no map.
    #[error("`{0}` cannot be set: there is no map to set it in")]
    Path(String),
    /// A field has another name now.
    #[error("`{path}` is called `{new}` now")]
    Renamed {
        /// Its path.
        path: &'static str,
        /// The path of the field that took its place.
        new: &'static str,
    },
    /// What came out is no connection.
    #[error("{0}")]
    Unfit(String),
}

/// Sets a value in a connection under way, by the dots of its path; maps are made where needed.
///
/// # Errors
///
/// Where the path leads through something that is no map.
pub fn set(connection: &mut Value, path: &str, value: Value) -> Result<(), FillError> {
    let wrong = || FillError::Path(path.to_owned());
    let mut at = connection;
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let map = at.as_object_mut().ok_or_else(wrong)?;
        if names.peek().is_none() {
            map.insert(name.to_owned(), value);
            return Ok(());
        }
        let next = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
        if next.is_null() {
            *next = Value::Object(Map::new());
        }
        at = next;
    }
    Err(wrong())
}

/// Reads what was put together.
///
/// # Errors
///
/// Where a field is missing, unknown or of another type.
pub fn read(connection: Value) -> Result<Connection, FillError> {
    for (path, new) in RENAMED {
        let pointer = format!("/{}", path.replace('.', "/"));
        if connection.pointer(&pointer).is_some() {
            return Err(FillError::Renamed { path, new });
        }
    }
    serde_json::from_value(connection).map_err(|error| FillError::Unfit(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_renamed_field_is_refused_with_its_new_name() {
        for (path, new) in RENAMED {
            let mut connection = json!({"to": {"http": {"base_url": "https://a.example"}}});
            set(&mut connection, path, json!("1d")).unwrap();

            let refused = read(connection).unwrap_err();

            assert_eq!(
                refused.to_string(),
                format!("`{path}` is called `{new}` now")
            );
        }
    }

    #[test]
    fn a_path_makes_the_maps_that_it_needs_and_no_other() {
        let mut connection = json!({"to": {"http": {"base_url": "https://a"}}});

        set(&mut connection, "limits.concurrency", json!(3)).unwrap();
        let refused = set(&mut connection, "to.http.base_url.host", json!("b"));

        assert_eq!(connection["limits"], json!({"concurrency": 3}));
        assert!(matches!(refused, Err(FillError::Path(_))));
    }
}
