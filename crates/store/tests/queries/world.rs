//! A migrated database, and deliveries to put into it.

use anyhow::Result;
use semel_model::{ClaimId, DeliveryId, Fingerprint, Key, SessionId, Span, TriggerKind};
use semel_store::claims::Delivery;
use semel_store::{Cell, CellOptions, migrate};
use semel_testkit::Database;

/// A cell of its own.
pub(crate) struct World {
    pub(crate) cell: Cell,
    _database: Database,
}

impl World {
    pub(crate) async fn start() -> Result<Self> {
        let database = Database::new(async |url| {
            let cell = Cell::connect(&url, CellOptions::default()).await?;
            migrate(&cell).await?;
            Ok(())
        })
        .await?;
        let cell = Cell::connect(&database.url(), CellOptions::default()).await?;
        Ok(Self {
            cell,
            _database: database,
        })
    }
}

/// A delivery of a key, with a payload.
pub(crate) fn delivery(key: &str, payload: &str, holder: Option<SessionId>) -> Result<Delivery> {
    let key = Key::new(key.as_bytes())?;
    let claim = ClaimId::derive(&"default".parse()?, &"hello".parse()?, &key);
    let input = semel_model::json::parse_strict(payload.as_bytes())?;
    let trigger = TriggerKind::Webhook;
    Ok(Delivery {
        claim,
        key,
        fingerprint: Fingerprint::of(&input),
        namespace_id: 1,
        release_id: 1,
        keep: Span::from_secs(3600),
        delivery: DeliveryId::generate(),
        events: format!(r#"[{{"event":"accepted","trigger":"{trigger}","input":{payload}}}]"#),
        holder,
        first_move: None,
        seems_known: false,
    })
}
