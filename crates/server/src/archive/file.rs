//! The layout of a file: its columns, how rows become groups, and how rows are read back.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use jiff::Timestamp;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::reader::{FileReader as _, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::reader::RowIter;
use parquet::record::{Row, RowAccessor as _};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};
use semel_model::RunId;
use sha2::{Digest as _, Sha256};

/// The columns, in order.
const COLUMNS: &str = "
    message run {
        REQUIRED BYTE_ARRAY run (UTF8);
        REQUIRED BYTE_ARRAY namespace (UTF8);
        REQUIRED BYTE_ARRAY flow (UTF8);
        REQUIRED INT32 release;
        REQUIRED BYTE_ARRAY key (UTF8);
        REQUIRED BYTE_ARRAY state (UTF8);
        REQUIRED INT64 accepted_at (TIMESTAMP(MICROS,true));
        REQUIRED INT64 ended_at (TIMESTAMP(MICROS,true));
        REQUIRED BYTE_ARRAY detail (JSON);
    }";

/// Where the run is among the columns.
pub(super) const RUN: usize = 0;

/// Where its detail is.
pub(super) const DETAIL: usize = 8;

/// The most rows of a group.
const GROUP_ROWS_MAX: usize = 128;

/// A group has no more rows once their details have this many bytes.
const GROUP_BYTES_MAX: usize = 1 << 20;

static SCHEMA: LazyLock<Option<TypePtr>> =
    LazyLock::new(|| parse_message_type(COLUMNS).ok().map(Arc::new));

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchivedRow {
    /// The run.
    pub(crate) run: String,
    /// The name of its namespace.
    pub(crate) namespace: String,
    /// Its flow.
    pub(crate) flow: String,
    /// The number of its release.
    pub(crate) release: i32,
    /// Its key.
    pub(crate) key: String,
    /// Its state.
    pub(crate) state: String,
    /// When its delivery was accepted.
    pub(crate) accepted_at: Timestamp,
    /// When it ended.
    pub(crate) ended_at: Timestamp,
    /// The run with everything that belongs to it, as JSON.
    pub(crate) detail: String,
}

/// Gathers rows into a file, and holds what is complete of it compressed.
pub(crate) struct FileWriter {
    writer: SerializedFileWriter<Vec<u8>>,
    group: Vec<ArchivedRow>,
    group_bytes: usize,
    /// How many bytes the details of all rows had.
    raw_bytes: usize,
    newest_at: Option<Timestamp>,
    runs: Vec<(RunId, [u8; 32])>,
}

/// A file that is complete.
pub(crate) struct FinishedFile {
    /// What to write.
    pub(crate) bytes: Vec<u8>,
    /// When the last of its runs ended.
    pub(crate) newest_at: Timestamp,
    /// Its runs, each with the SHA-256 of its detail.
    pub(crate) runs: Vec<(RunId, [u8; 32])>,
}

impl FileWriter {
    /// An empty file.
    pub(crate) fn new() -> Result<Self> {
        let schema = SCHEMA.clone();
        let schema = schema.ok_or_else(|| ParquetError::General("no schema".to_owned()))?;
        Ok(Self {
            writer: SerializedFileWriter::new(Vec::new(), schema, properties()?)?,
            group: Vec::new(),
            group_bytes: 0,
            raw_bytes: 0,
            newest_at: None,
            runs: Vec::new(),
        })
    }

    /// Adds a row. They come in the order of their runs.
    pub(crate) fn add(&mut self, row: ArchivedRow) -> Result<()> {
        let run = row.run.parse::<RunId>();
        let run = run.map_err(|error| ParquetError::General(error.to_string()))?;
        self.runs.push((run, Sha256::digest(&row.detail).into()));
        self.newest_at = self.newest_at.max(Some(row.ended_at));
        self.group_bytes += row.detail.len();
        self.raw_bytes += row.detail.len();
        self.group.push(row);
        match self.group.len() >= GROUP_ROWS_MAX || self.group_bytes >= GROUP_BYTES_MAX {
            true => self.end_group(),
            false => Ok(()),
        }
    }

    /// How many bytes the details of all rows had.
    pub(crate) fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    /// The file.
    pub(crate) fn finish(mut self) -> Result<FinishedFile> {
        self.end_group()?;
        Ok(FinishedFile {
            newest_at: self.newest_at.unwrap_or(Timestamp::UNIX_EPOCH),
            bytes: self.writer.into_inner()?,
            runs: self.runs,
        })
    }

    fn end_group(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.group);
        self.group_bytes = 0;
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        add_texts(&mut group, &rows, |row| &row.run)?;
        add_texts(&mut group, &rows, |row| &row.namespace)?;
        add_texts(&mut group, &rows, |row| &row.flow)?;
        let releases: Vec<i32> = rows.iter().map(|row| row.release).collect();
        if let Some(mut column) = group.next_column()? {
            column
                .typed::<Int32Type>()
                .write_batch(&releases, None, None)?;
            column.close()?;
        }
        add_texts(&mut group, &rows, |row| &row.key)?;
        add_texts(&mut group, &rows, |row| &row.state)?;
        add_times(&mut group, &rows, |row| row.accepted_at)?;
        add_times(&mut group, &rows, |row| row.ended_at)?;
        add_texts(&mut group, &rows, |row| &row.detail)?;
        group.close()?;
        Ok(())
    }
}

/// A payload is in the details alone: neither a dictionary nor statistics repeat it.
fn properties() -> Result<WriterPropertiesPtr> {
    let (run, key, detail) = ("run", "key", "detail");
    let path = |name: &str| ColumnPath::from(name);
    let properties = WriterProperties::builder()
        .set_created_by(format!("semel {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_column_dictionary_enabled(path(run), false)
        .set_column_dictionary_enabled(path(key), false)
        .set_column_dictionary_enabled(path(detail), false)
        .set_column_statistics_enabled(path(detail), EnabledStatistics::None);
    Ok(Arc::new(properties.build()))
}

fn add_texts(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    rows: &[ArchivedRow],
    text: impl Fn(&ArchivedRow) -> &String,
) -> Result<()> {
    let values = rows.iter().map(|row| ByteArray::from(text(row).as_str()));
    let values: Vec<ByteArray> = values.collect();
    if let Some(mut column) = group.next_column()? {
        column
            .typed::<ByteArrayType>()
            .write_batch(&values, None, None)?;
        column.close()?;
    }
    Ok(())
}

fn add_times(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    rows: &[ArchivedRow],
    time: impl Fn(&ArchivedRow) -> Timestamp,
) -> Result<()> {
    let values: Vec<i64> = rows.iter().map(|row| time(row).as_microsecond()).collect();
    if let Some(mut column) = group.next_column()? {
        column
            .typed::<Int64Type>()
            .write_batch(&values, None, None)?;
        column.close()?;
    }
    Ok(())
}

/// Gives every row of a file to `each`, one after the other.
pub(super) fn for_each(file: Bytes, mut each: impl FnMut(ArchivedRow) -> Result<()>) -> Result<()> {
    let file = SerializedFileReader::new(file)?;
    for number in 0..file.num_row_groups() {
        let group = file.get_row_group(number)?;
        for row in RowIter::from_row_group(None, group.as_ref())? {
            each(read_row(&row?)?)?;
        }
    }
    Ok(())
}

/// The detail of a run, if it is in this group.
pub(super) fn find_in(group: &dyn RowGroupReader, run: &str) -> Result<Option<String>> {
    for row in RowIter::from_row_group(None, group)? {
        let row = row?;
        if row.get_string(RUN)? == run {
            return Ok(Some(row.get_string(DETAIL)?.clone()));
        }
    }
    Ok(None)
}

fn read_row(row: &Row) -> Result<ArchivedRow> {
    let text = |column: usize| row.get_string(column).cloned();
    let time = |column: usize| {
        let time = Timestamp::from_microsecond(row.get_timestamp_micros(column)?);
        time.map_err(|error| ParquetError::General(error.to_string()))
    };
    Ok(ArchivedRow {
        run: text(RUN)?,
        namespace: text(1)?,
        flow: text(2)?,
        release: row.get_int(3)?,
        key: text(4)?,
        state: text(5)?,
        accepted_at: time(6)?,
        ended_at: time(7)?,
        detail: text(DETAIL)?,
    })
}
