//! The marker of an effect: a row that commits together with what it marks.

use semel_model::{EffectId, Fault};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{Json, Type};
use tokio_postgres::{Client, Error};

use super::classify;

/// The table of markers. It lies in the schema that the role's search path names first.
const TABLE: &str = r#"
    CREATE TABLE IF NOT EXISTS semel_effects (
        key    uuid PRIMARY KEY,
        result json,
        at     timestamptz NOT NULL DEFAULT now()
    );
    COMMENT ON TABLE semel_effects IS
        'One row per effect that Semel has committed here, so that none is committed twice. Rows may be deleted once their runs are forgotten.'
"#;

const LEAVE: &str = "INSERT INTO semel_effects (key) VALUES ($1) ON CONFLICT (key) DO NOTHING";

/// Whether an effect was marked before.
pub(super) enum Marked {
    /// It happened: this was its result, as text.
    Before(Box<RawValue>),
    /// The marker is new, and commits with what follows.
    Now,
}

/// Writes the marker, or reads the existing one. Waits for a transaction that is writing the same.
pub(super) async fn leave(client: &Client, key: EffectId, name: &str) -> Result<Marked, Fault> {
    let left = client
        .execute_typed(
            semel_model::SeededBug::MarkerOverwritten.in_text(
                LEAVE,
                "DO NOTHING",
                "DO UPDATE SET at = now()",
            ),
            &[(key.as_uuid(), Type::UUID)],
        )
        .await
        .map_err(|error| explain(error, name))?;
    if left == 1 {
        return Ok(Marked::Now);
    }
    let rows = client
        .query_typed(
            "SELECT result FROM semel_effects WHERE key = $1",
            &[(key.as_uuid(), Type::UUID)],
        )
        .await
        .map_err(classify::fault)?;
    match rows
        .first()
        .map(|row| row.try_get::<_, Option<Json<Box<RawValue>>>>(0))
    {
        Some(Ok(Some(Json(result)))) => Ok(Marked::Before(result)),
        Some(Ok(None) | Err(_)) => Err(Fault::permanent(
            "marker-damaged",
            format!("the marker of {key} in semel_effects holds no result: it was changed by hand"),
        )),
        None => Err(Fault::passing(
            "marker-moved",
            format!("the marker of {key} was deleted from semel_effects a moment ago"),
        )),
    }
}

/// Writes the result into the marker. It must still be there: a statement that deletes its own
/// marker would be performed again.
pub(super) async fn keep_result(
    client: &Client,
    key: EffectId,
    result: &Value,
) -> Result<(), Fault> {
    let kept = client
        .execute_typed(
            "UPDATE semel_effects SET result = $2 WHERE key = $1",
            &[(key.as_uuid(), Type::UUID), (&Json(result), Type::JSON)],
        )
        .await
        .map_err(classify::fault)?;
    match kept {
        1 => Ok(()),
        _ => Err(Fault::permanent(
            "marker-damaged",
            "the statement removed its own marker from semel_effects: it was rolled back",
        )),
    }
}

/// Makes the table where it is not there.
pub(super) async fn make_table(client: &Client) -> Result<(), Fault> {
    if has_table(client).await? {
        return Ok(());
    }
    client.batch_execute(TABLE).await.map_err(|error| {
        let message = format!(
            "{}; a role that may create tables can run: {}",
            classify::describe(&error),
            TABLE.split_whitespace().collect::<Vec<_>>().join(" ")
        );
        Fault {
            message,
            ..classify::fault(error)
        }
    })
}

/// Who the server is, who we are there, and whether the markers' table is there.
pub(super) async fn describe_server(client: &Client, name: &str) -> Result<String, Fault> {
    let row = client
        .query_one(
            "SELECT current_setting('server_version'), current_user::text",
            &[],
        )
        .await
        .map_err(classify::fault)?;
    let (version, role): (String, String) = (row.get(0), row.get(1));
    let markers = match has_table(client).await? {
        true => "semel_effects exists".to_owned(),
        false => format!("semel_effects is missing: semel connection prepare {name}"),
    };
    Ok(format!("PostgreSQL {version} as {role}; {markers}"))
}

async fn has_table(client: &Client) -> Result<bool, Fault> {
    let row = client
        .query_one("SELECT to_regclass('semel_effects') IS NOT NULL", &[])
        .await
        .map_err(classify::fault)?;
    Ok(row.get(0))
}

fn explain(error: Error, name: &str) -> Fault {
    match error.code() {
        Some(code) if *code == SqlState::UNDEFINED_TABLE => Fault::permanent(
            "marker-missing",
            format!("the table semel_effects does not exist: semel connection prepare {name}"),
        ),
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => Fault::permanent(
            "marker-denied",
            "the role may not use semel_effects: GRANT SELECT, INSERT, UPDATE ON semel_effects to it",
        ),
        Some(_) | None => classify::fault(error),
    }
}
