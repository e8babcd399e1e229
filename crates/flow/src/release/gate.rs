//! What the runs of a flow pass before their first step, checked.

use semel_model::gate::{Policy, Rate, Rules};
use semel_model::{Span, Version};
use serde::Serialize;
use serde_json::Value;

use crate::expr::{Expr, Scope};

/// The longest text that is an object.
const OBJECT_BYTES_MAX: usize = 1_024;

/// Runs of one object, one at a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overlap {
    /// The object; the flow as a whole, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Expr>,
    /// What becomes of the later run.
    pub policy: Policy,
}

/// How many runs, and how fast.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// What the limit is counted by; the flow as a whole, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Expr>,
    /// The most runs under way together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// How often runs may start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How long an object must be quiet before its newest run starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce: Option<Span>,
    /// How much sooner a run that is due begins than those of other flows, in steps.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i8,
}

/// Which delivery about one object is newer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Order {
    /// The object.
    pub object: Expr,
    /// Its version.
    pub version: Expr,
}

impl Overlap {
    /// What its gate goes by.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        Rules::one_at_a_time(self.policy)
    }
}

impl Limit {
    /// What its gate goes by; nothing where it only says what goes first.
    #[must_use]
    pub fn rules(&self) -> Option<Rules> {
        let Self {
            at_once,
            rate,
            debounce,
            ..
        } = *self;
        let says = at_once.is_some() || rate.is_some() || debounce.is_some();
        says.then_some(Rules {
            policy: Policy::Queue,
            at_once,
            rate,
            debounce,
        })
    }
}

impl Order {
    /// The object and the version of a delivery.
    ///
    /// # Errors
    ///
    /// Where one of them cannot be told, in words.
    pub fn tell(&self, scope: &Scope<'_>) -> Result<(String, Version), String> {
        let object =
            object(&self.object, scope).map_err(|error| format!("`order.object`: {error}"))?;
        let version = self.version.eval(scope);
        let version = version.map_err(|error| format!("`order.version`: {error}"))?;
        let version =
            Version::read(&version).map_err(|error| format!("`order.version`: {error}"))?;
        Ok((object, version))
    }
}

/// The object that an expression names, where there is one; the flow as a whole otherwise.
///
/// # Errors
///
/// Where it cannot be told, in words.
pub fn object_of(key: Option<&Expr>, scope: &Scope<'_>) -> Result<String, String> {
    key.map_or_else(|| Ok(String::new()), |key| object(key, scope))
}

/// An object of no name would be the flow as a whole.
fn object(key: &Expr, scope: &Scope<'_>) -> Result<String, String> {
    let text = match key.eval(scope).map_err(|error| error.to_string())? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Null => return Err("it is null".to_owned()),
        Value::Bool(_) => return Err("it is true or false".to_owned()),
        Value::Array(_) | Value::Object(_) => {
            return Err("it is a list or a map: use fingerprint(…)".to_owned());
        }
    };
    match text.len() {
        0 => Err("it is empty".to_owned()),
        1..=OBJECT_BYTES_MAX if !text.contains('\0') => Ok(text),
        1..=OBJECT_BYTES_MAX => Err("it has the character zero in it".to_owned()),
        _ => Err(format!("it has more than {OBJECT_BYTES_MAX} bytes")),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
const fn is_zero(priority: &i8) -> bool {
    *priority == 0
}
