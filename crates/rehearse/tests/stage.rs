//! A database to rehearse beside.

use std::collections::BTreeMap;

use anyhow::Result;
use semel_engine::{Options, Secret};
use semel_flow::load;
use semel_rehearse::{Report, Selection, Subject, rehearse};
use semel_store::rehearsals::StagedFlow;
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

    /// Rehearses a flow that calls others, which are named with their texts.
    pub(crate) async fn rehearse_caller(
        &self,
        source: &str,
        called: &[(&str, &str)],
        connections: serde_json::Value,
    ) -> Result<Report> {
        let called = called.iter().map(|(name, source)| StagedFlow {
            name: (*name).to_owned(),
            digest: load(source)
                .map(|flow| flow.digest().to_string())
                .unwrap_or_default(),
            source: (*source).to_owned(),
        });
        let subject = Subject {
            file: "caller.flow.yaml".to_owned(),
            source: source.to_owned(),
            called: called.collect(),
            connections: serde_json::from_value(connections)?,
        };
        let all = Selection::default();
        Ok(rehearse(&self.cell, &self.options, &subject, &all, &|_| {}).await?)
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
