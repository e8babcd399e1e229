//! A database to rehearse beside.

use std::collections::BTreeMap;

use anyhow::Result;
use semel_engine::{Options, Secret};
use semel_rehearse::{Report, Selection, Subject, rehearse};
use semel_store::{Cell, CellOptions, migrate};
use semel_testkit::Database;

/// A migrated database.
pub(crate) struct World {
    pub(crate) cell: Cell,
    pub(crate) options: Options,
    pub(crate) database: Database,
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
            options: Options::new(Secret::from_hex(&Secret::generate())?),
            database,
        })
    }

    /// Rehearses all cases of a flow.
    pub(crate) async fn rehearse(
        &self,
        file: &str,
        source: &str,
        connections: serde_json::Value,
    ) -> Result<Report> {
        self.rehearse_some(file, source, connections, &Selection::default())
            .await
    }

    /// Rehearses some cases of a flow.
    pub(crate) async fn rehearse_some(
        &self,
        file: &str,
        source: &str,
        connections: serde_json::Value,
        selection: &Selection,
    ) -> Result<Report> {
        let connections: BTreeMap<String, semel_model::Connection> =
            serde_json::from_value(connections)?;
        let subject = Subject {
            file: file.to_owned(),
            source: source.to_owned(),
            called: Vec::new(),
            connections,
        };
        let report = rehearse(&self.cell, &self.options, &subject, selection, &|_| {}).await?;
        Ok(report)
    }
}
