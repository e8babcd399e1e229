//! A real run as a pattern: its rows as text, with places where another run differs.
//!
//! What the engine wrote for one run is read once and cut into pieces. A copy has the same pieces with
//! another key, the identities that this key has, and times moved to when the copy was accepted.

use std::fmt::Write as _;

use anyhow::Result;
use jiff::Timestamp;
use semel_model::named_effect::EffectName;
use semel_model::{ClaimId, EffectId, FlowName, Key, NamedEffectId, NamespaceName, RunId, WaitId};
use uuid::Uuid;

/// A part of the text of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// The same in every copy; already escaped for COPY.
    Same(String),
    /// The key.
    Key,
    /// The key's bytes, in hexadecimal digits.
    KeyBytes,
    /// An identity, with hyphens.
    Id(usize),
    /// An identity, without hyphens.
    ShortId(usize),
    /// A time, so many microseconds after the original was accepted.
    Time(i64),
    /// The day on which the run was accepted.
    Day,
    /// The number of the namespace.
    Namespace,
    /// The number of the flow.
    Flow,
    /// The number of the release.
    Release,
}

/// How the copy of an identity is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// The run, which also is the claim of its key; of a script, the named effect.
    Subject,
    /// A child run of a step, by its item.
    Child { step: String, item: String },
    /// An effect of a run, which is among the identities.
    Effect { run: usize, path: String },
    /// A wait or an approval of a run, which is among the identities.
    Wait { run: usize, path: String },
    /// Drawn by lot: it means nothing to anybody else.
    Drawn,
}

/// Whom a pattern is about.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// A run of a flow.
    Run(FlowName),
    /// What a script does once, under a key of the whole namespace.
    Once,
}

/// The rows of one table.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// The table's place among [`super::read::TABLES`].
    pub(super) table: usize,
    /// Each row's pieces, tabs and the line's end among them.
    pub(super) lines: Vec<Vec<Piece>>,
}

/// A real run, or what a script did once, as a pattern for others.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) subject: Subject,
    pub(super) identities: Vec<Identity>,
    pub(super) rows: Vec<Rows>,
}

/// What one copy has of its own.
pub(super) struct CopyOf<'a> {
    pub(super) namespace: &'a NamespaceName,
    pub(super) namespace_id: i32,
    pub(super) flow_id: i32,
    pub(super) release_id: i32,
    pub(super) key: String,
    /// When it was accepted, in microseconds since 1970.
    pub(super) at: i64,
    /// What identities are drawn from.
    pub(super) lot: u64,
}

impl Template {
    /// Writes the rows of a copy, each table's behind the text that it has already.
    pub(super) fn write(&self, copy: &CopyOf<'_>, texts: &mut [String]) -> Result<()> {
        let ids = self.identities_of(copy)?;
        let day = Timestamp::from_microsecond(copy.at)?
            .strftime("%Y-%m-%d")
            .to_string();
        for rows in &self.rows {
            let text = &mut texts[rows.table];
            for piece in rows.lines.iter().flatten() {
                match piece {
                    Piece::Same(same) => text.push_str(same),
                    Piece::Key => text.push_str(&copy.key),
                    Piece::KeyBytes => {
                        for byte in copy.key.bytes() {
                            write!(text, "{byte:02x}")?;
                        }
                    }
                    Piece::Id(which) => write!(text, "{}", ids[*which])?,
                    Piece::ShortId(which) => write!(text, "{}", ids[*which].simple())?,
                    Piece::Time(after) => {
                        write!(text, "{}", Timestamp::from_microsecond(copy.at + after)?)?;
                    }
                    Piece::Day => text.push_str(&day),
                    Piece::Namespace => write!(text, "{}", copy.namespace_id)?,
                    Piece::Flow => write!(text, "{}", copy.flow_id)?,
                    Piece::Release => write!(text, "{}", copy.release_id)?,
                }
            }
        }
        Ok(())
    }

    fn identities_of(&self, copy: &CopyOf<'_>) -> Result<Vec<Uuid>> {
        let subject = self.subject.identity(copy.namespace, &copy.key)?;
        let mut ids: Vec<Uuid> = Vec::with_capacity(self.identities.len());
        for (place, identity) in (0_u64..).zip(&self.identities) {
            ids.push(match identity {
                Identity::Subject => subject,
                Identity::Child { step, item } => child_of(subject, step, item),
                Identity::Effect { run, path } => effect_of(ids[*run], path),
                Identity::Wait { run, path } => wait_of(ids[*run], path),
                Identity::Drawn => drawn(copy.lot, place),
            });
        }
        Ok(ids)
    }
}

impl Subject {
    /// The identity of a run or a named effect, by its key.
    pub(super) fn identity(&self, namespace: &NamespaceName, key: &str) -> Result<Uuid> {
        Ok(match self {
            Self::Run(flow) => {
                let claim = ClaimId::derive(namespace, flow, &Key::new(key.as_bytes())?);
                *RunId::derive(claim, 0).as_uuid()
            }
            Self::Once => {
                let name = EffectName::new("shared".parse()?, key.as_bytes())?;
                *NamedEffectId::derive(namespace, &name).as_uuid()
            }
        })
    }
}

/// A child run.
pub(super) fn child_of(run: Uuid, step: &str, item: &str) -> Uuid {
    *RunId::from_uuid(run).child(step, item).as_uuid()
}

/// The effect of a step.
pub(super) fn effect_of(run: Uuid, path: &str) -> Uuid {
    *EffectId::derive(RunId::from_uuid(run), path, "", 0).as_uuid()
}

/// The wait of a step.
pub(super) fn wait_of(run: Uuid, path: &str) -> Uuid {
    *WaitId::derive(RunId::from_uuid(run), path).as_uuid()
}

/// A number that looks drawn by lot and is the same every time.
pub(super) fn mix(seed: u64, number: u64) -> u64 {
    let mut mixed = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn drawn(lot: u64, place: u64) -> Uuid {
    Uuid::from_u64_pair(mix(lot, 2 * place), mix(lot, 2 * place + 1))
}
