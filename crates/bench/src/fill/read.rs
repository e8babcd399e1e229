//! Reads what the engine wrote for one run, and cuts it into the pieces of a pattern.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use semel_model::NamespaceName;
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::template::{Identity, Piece, Rows, Subject, Template, child_of, effect_of, wait_of};

/// The tables that have rows of runs, and which of their rows belong to the runs `$1`.
pub(super) const TABLES: [(&str, &str); 13] = [
    ("claims", "run_id = ANY ($1)"),
    ("runs", "id = ANY ($1)"),
    ("queue", "run_id = ANY ($1)"),
    ("journal", "run_id = ANY ($1)"),
    ("effects", "run_id = ANY ($1)"),
    ("attention", "run_id = ANY ($1)"),
    ("child_runs", "parent_id = ANY ($1)"),
    ("waits", "run_id = ANY ($1)"),
    ("tasks", "run_id = ANY ($1)"),
    ("approvals", "run_id = ANY ($1)"),
    ("duplicates", "run_id = ANY ($1)"),
    (
        "webhook_deliveries",
        "event_id IN (SELECT id FROM effects WHERE run_id = ANY ($1))",
    ),
    ("named_effects", "id = ANY ($1)"),
];

/// What of a run has an identity that is derived: its run, its step's path, and the identity.
const OWNED: &str = "
    SELECT 'effect', run_id, step, id FROM effects WHERE run_id = ANY ($1)
     UNION ALL
    SELECT 'wait', run_id, step, id FROM waits WHERE run_id = ANY ($1) AND step IS NOT NULL
     UNION ALL
    SELECT 'wait', run_id, step, id FROM approvals WHERE run_id = ANY ($1)
     ORDER BY 2, 3, 1";

const CHILDREN: &str =
    "SELECT step, key, run_id FROM child_runs WHERE parent_id = $1 ORDER BY step, index";

const EXTERNAL_IDS: &str = "
    SELECT external_id FROM effects WHERE run_id = ANY ($1) AND external_id IS NOT NULL ORDER BY step";

/// A text that differs from copy to copy, and what stands for it.
struct Mark {
    text: String,
    pieces: Vec<Piece>,
}

/// What is known of the original while it is read.
struct Original {
    /// When it was accepted, in microseconds since 1970.
    at: i64,
    /// The day of that.
    day: String,
    ids: Vec<Uuid>,
    identities: Vec<Identity>,
    marks: Vec<Mark>,
}

/// Reads the run, or what a script did once, that has a key.
pub(super) async fn read(
    client: &Client,
    namespace: &NamespaceName,
    subject: Subject,
    key: &str,
) -> Result<Template> {
    let id = subject.identity(namespace, key)?;
    let mut original = Original::find(client, &subject, id).await?;
    original.name(client, key).await?;
    let runs = original.runs();
    let mut rows = Vec::new();
    for (table, (name, condition)) in TABLES.iter().enumerate() {
        let lines = original.lines(client, name, condition, &runs).await;
        let lines = lines.with_context(|| format!("cannot read {name} of {key}"))?;
        if !lines.is_empty() {
            rows.push(Rows { table, lines });
        }
    }
    ensure!(!rows.is_empty(), "there is nothing under the key {key}");
    Ok(Template {
        subject,
        identities: original.identities,
        rows,
    })
}

impl Original {
    async fn find(client: &Client, subject: &Subject, id: Uuid) -> Result<Self> {
        let text = match subject {
            Subject::Run(_) => "SELECT accepted_at FROM runs WHERE id = $1",
            Subject::Once => "SELECT begun_at FROM named_effects WHERE id = $1",
        };
        let row = client.query_opt(text, &[&id]).await?;
        let at: Timestamp = row.context("the run is not there")?.get(0);
        Ok(Self {
            at: at.as_microsecond(),
            day: at.strftime("%Y-%m-%d").to_string(),
            ids: vec![id],
            identities: vec![Identity::Subject],
            marks: Vec::new(),
        })
    }

    /// Finds every identity that is derived from the key, and every text that names one. An identity
    /// that is derived otherwise than here is an error: copies would not hang together.
    async fn name(&mut self, client: &Client, key: &str) -> Result<()> {
        let subject = self.ids[0];
        for row in client.query(CHILDREN, &[&subject]).await? {
            let (step, item, id): (String, String, Uuid) = (row.get(0), row.get(1), row.get(2));
            ensure!(
                child_of(subject, &step, &item) == id,
                "the child run {id} of {step} is not derived as it was"
            );
            self.add(id, Identity::Child { step, item });
        }
        let runs = self.runs();
        for row in client.query(OWNED, &[&runs]).await? {
            let (what, run, path): (&str, Uuid, String) = (row.get(0), row.get(1), row.get(2));
            let id: Uuid = row.get(3);
            let owner = self.ids.iter().position(|known| *known == run);
            let owner = owner.context("a run that is not read")?;
            let (derived, identity) = match what {
                "effect" => (effect_of(run, &path), Identity::Effect { run: owner, path }),
                _ => (wait_of(run, &path), Identity::Wait { run: owner, path }),
            };
            ensure!(derived == id, "{identity:?} is not derived as it was");
            self.add(id, identity);
        }
        self.mark(key, vec![Piece::Key]);
        let external = client.query(EXTERNAL_IDS, &[&runs]).await?;
        for (number, row) in external.iter().enumerate() {
            let same = Piece::Same(format!("ext{number}_"));
            self.mark(row.get(0), vec![same, Piece::Key]);
        }
        // The longest first: a short one may be the beginning of a long one.
        self.marks
            .sort_by_key(|mark| std::cmp::Reverse(mark.text.len()));
        Ok(())
    }

    fn runs(&self) -> Vec<Uuid> {
        let known = self.ids.iter().zip(&self.identities);
        known
            .filter(|(_, it)| matches!(it, Identity::Subject | Identity::Child { .. }))
            .map(|(id, _)| *id)
            .collect()
    }

    fn add(&mut self, id: Uuid, identity: Identity) -> usize {
        if let Some(place) = self.ids.iter().position(|known| *known == id) {
            return place;
        }
        self.ids.push(id);
        self.identities.push(identity);
        self.ids.len() - 1
    }

    fn mark(&mut self, text: &str, pieces: Vec<Piece>) {
        self.marks.push(Mark {
            text: text.to_owned(),
            pieces,
        });
    }

    async fn lines(
        &mut self,
        client: &Client,
        table: &str,
        condition: &str,
        runs: &[Uuid],
    ) -> Result<Vec<Vec<Piece>>> {
        let columns = client.prepare(&format!("SELECT * FROM {table}")).await?;
        let columns: Vec<(String, Type)> = columns
            .columns()
            .iter()
            .map(|column| (column.name().to_owned(), column.type_().clone()))
            .collect();
        let texts: Vec<String> = columns.iter().map(|(name, of)| as_text(name, of)).collect();
        let text = format!("SELECT {} FROM {table} WHERE {condition}", texts.join(", "));
        let mut lines = Vec::new();
        for row in client.query(&text, &[&runs]).await? {
            let mut line = Vec::new();
            for (place, (name, of)) in columns.iter().enumerate() {
                if place > 0 {
                    line.push(Piece::Same("\t".to_owned()));
                }
                match row.get::<_, Option<&str>>(place) {
                    Some(value) => line.extend(self.pieces(name, of, value)?),
                    None => line.push(Piece::Same("\\N".to_owned())),
                }
            }
            line.push(Piece::Same("\n".to_owned()));
            lines.push(joined(line));
        }
        Ok(lines)
    }

    fn pieces(&mut self, column: &str, of: &Type, value: &str) -> Result<Vec<Piece>> {
        Ok(match (column, of) {
            ("namespace_id", _) => vec![Piece::Namespace],
            ("release_id", _) => vec![Piece::Release],
            ("flow_id", _) => vec![Piece::Flow],
            ("partition_date", _) => vec![Piece::Day],
            (_, &Type::BYTEA) => self.cut_bytes(value)?,
            (_, &Type::UUID) => match value.parse::<Uuid>()? {
                nil if nil.is_nil() => vec![Piece::Same(value.to_owned())],
                id => vec![Piece::Id(self.add(id, Identity::Drawn))],
            },
            (_, &Type::TIMESTAMPTZ) => match value.parse::<i64>() {
                Ok(at) => vec![Piece::Time(at - self.at)],
                // Infinity.
                Err(_) => vec![Piece::Same(value.to_owned())],
            },
            _ => self.cut(value),
        })
    }

    /// Cuts bytes, which are a key or begin with one.
    fn cut_bytes(&self, value: &str) -> Result<Vec<Piece>> {
        let digits = value
            .strip_prefix("\\x")
            .context("bytes in hexadecimal digits")?;
        let bytes: Result<Vec<u8>, _> = (0..digits.len() / 2)
            .map(|place| u8::from_str_radix(&digits[2 * place..2 * place + 2], 16))
            .collect();
        let text = String::from_utf8(bytes?)?;
        let mut pieces = vec![Piece::Same(r"\\x".to_owned())];
        for piece in self.cut(&text) {
            if let Piece::Same(same) = &piece {
                let digits: Vec<String> = same.bytes().map(|it| format!("{it:02x}")).collect();
                pieces.push(Piece::Same(digits.concat()));
                continue;
            }
            ensure!(piece == Piece::Key, "bytes that name more than a key");
            pieces.push(Piece::KeyBytes);
        }
        Ok(pieces)
    }

    /// Cuts a text at everything that differs from copy to copy.
    fn cut(&self, text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut same = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (found, length) = match self.find_mark(rest) {
                Some(found) => found,
                None => {
                    escape(first, &mut same);
                    rest = &rest[first.len_utf8()..];
                    continue;
                }
            };
            pieces.push(Piece::Same(std::mem::take(&mut same)));
            pieces.extend(found);
            rest = &rest[length..];
        }
        pieces.push(Piece::Same(same));
        pieces
    }

    /// What stands at the beginning of a text, and how long it is.
    fn find_mark(&self, text: &str) -> Option<(Vec<Piece>, usize)> {
        for (place, id) in self.ids.iter().enumerate() {
            for (form, piece) in [
                (id.simple().to_string(), Piece::ShortId(place)),
                (id.to_string(), Piece::Id(place)),
            ] {
                if text.starts_with(&form) {
                    return Some((vec![piece], form.len()));
                }
            }
        }
        let mark = self.marks.iter().find(|it| text.starts_with(&it.text));
        if let Some(mark) = mark {
            return Some((mark.pieces.clone(), mark.text.len()));
        }
        if let Some((at, length)) = time_at(text) {
            return Some((vec![Piece::Time(at - self.at)], length));
        }
        let is_day = text.starts_with(&self.day);
        is_day.then(|| (vec![Piece::Day], self.day.len()))
    }
}

/// A column as text; a time as microseconds since 1970.
fn as_text(column: &str, of: &Type) -> String {
    match *of {
        Type::TIMESTAMPTZ => format!(
            "CASE WHEN isfinite(\"{column}\") THEN (extract(epoch FROM \"{column}\") * 1000000)::int8::text \
             ELSE \"{column}\"::text END"
        ),
        _ => format!("\"{column}\"::text"),
    }
}

/// The time that a text begins with, in microseconds since 1970, and how long it is.
fn time_at(text: &str) -> Option<(i64, usize)> {
    let shape = "0000-00-00T00:00:00";
    let head = text.get(..shape.len())?;
    let fits = |(is, should): (u8, u8)| match should {
        b'0' => is.is_ascii_digit(),
        other => is == other,
    };
    if !head.bytes().zip(shape.bytes()).all(fits) {
        return None;
    }
    let end = shape.len() + text[shape.len()..].find('Z')? + 1;
    let at: Timestamp = text[..end].parse().ok()?;
    Some((at.as_microsecond(), end))
}

/// A character as COPY reads it.
fn escape(character: char, text: &mut String) {
    match character {
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        other => text.push(other),
    }
}

/// The same pieces, with neighbours that never differ as one.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Same(before)), Piece::Same(same)) => before.push_str(&same),
            (_, piece) => joined.push(piece),
        }
    }
    joined
}

#[cfg(test)]
mod tests;
