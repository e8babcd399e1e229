//! Reading from a file: one run by the end of the file and one group of rows, or all of it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use bytes::buf::{Buf as _, Reader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::page_index::RowGroupPageIndex;
use parquet::file::metadata::{
    FooterTail, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedRowGroupReader;
use semel_engine::{ArchiveError, ArchivedText, Budget, ObjectFolder};
use semel_model::RunId;
use semel_store::archives::ArchiveFile;
use sha2::{Digest as _, Sha256};

use super::file::{RUN, find_in};
use super::{broken, unread};
use crate::heavy;
use crate::journal_memory::room_for_archived;

/// How many bytes of a file's end are read first. That is the whole description of a file of usual size.
const END_BYTES: u64 = 64 << 10;

/// The detail of a run, read once there is memory for its group of rows. Nothing where the file does not have it.
pub(super) async fn find(
    objects: &ObjectFolder,
    file: &ArchiveFile,
    (namespace_id, run): (i32, RunId),
    memory: &Budget,
) -> Result<Option<ArchivedText>, ArchiveError> {
    let description = Arc::new(describe(objects, file).await?);
    let run = run.to_string();
    for number in 0..description.num_row_groups() {
        let group = description.row_group(number);
        let range = range_of(group).filter(|range| range.end <= file.bytes);
        let Some(range) = range.filter(|_| may_have(group, &run)) else {
            continue;
        };
        // As its rows are, without compression.
        let size = usize::try_from(group.total_byte_size()).unwrap_or(usize::MAX);
        let memory = room_for_archived(memory, size).await;
        let memory = memory.map_err(|_| ArchiveError::Unreachable(busy()))?;
        let bytes = read(objects, file, range.clone()).await?;
        let (description, wanted) = (description.clone(), run.clone());
        let slice = Slice { range, bytes };
        let search = move || slice.find(&description, number, &wanted);
        let found = heavy::compute(namespace_id, search).await;
        let found = found.map_err(|_| ArchiveError::Unreachable(busy()))?;
        let found = found.map_err(|error| broken(&file.object, error))?;
        if let Some(text) = found {
            return Ok(Some(ArchivedText { text, memory }));
        }
    }
    Ok(None)
}

/// All bytes of a file, which are those that were written.
pub(super) async fn whole(
    objects: &ObjectFolder,
    file: &ArchiveFile,
) -> Result<Bytes, ArchiveError> {
    let bytes = objects.read(&file.object).await;
    let bytes = bytes.map_err(|error| unread(&file.object, error))?;
    match Sha256::digest(&bytes).as_slice() == file.sha256.as_slice() {
        true => Ok(bytes),
        false => Err(broken(
            &file.object,
            "its bytes are not those that were written",
        )),
    }
}

/// The description of a file, which is its end.
async fn describe(
    objects: &ObjectFolder,
    file: &ArchiveFile,
) -> Result<ParquetMetaData, ArchiveError> {
    let wrong = |error: ParquetError| broken(&file.object, error);
    let begin = file.bytes.saturating_sub(END_BYTES);
    let mut end = read(objects, file, begin..file.bytes).await?;
    let tail = end.last_chunk::<FOOTER_SIZE>();
    let tail = tail.ok_or_else(|| broken(&file.object, "it is too short"))?;
    let length = FooterTail::try_new(tail).map_err(wrong)?.metadata_length();
    let needed = length.saturating_add(FOOTER_SIZE);
    if needed > end.len() {
        let begin = file.bytes.checked_sub(needed as u64);
        let begin = begin.ok_or_else(|| broken(&file.object, "its description is cut off"))?;
        end = read(objects, file, begin..file.bytes).await?;
    }
    let description = end
        .len()
        .checked_sub(needed)
        .and_then(|begin| end.get(begin..begin + length))
        .ok_or_else(|| broken(&file.object, "its description is cut off"))?;
    ParquetMetaDataReader::decode_metadata(description).map_err(wrong)
}

fn busy() -> io::Error {
    io::Error::other("too much is being read at this moment")
}

async fn read(
    objects: &ObjectFolder,
    file: &ArchiveFile,
    range: Range<u64>,
) -> Result<Bytes, ArchiveError> {
    let bytes = objects.read_range(&file.object, range).await;
    bytes.map_err(|error| unread(&file.object, error))
}

/// Whether a run may be in a group, by the first and the last run that it has.
fn may_have(group: &RowGroupMetaData, run: &str) -> bool {
    let Some(statistics) = group.column(RUN).statistics() else {
        return true;
    };
    let is_before = |first: &[u8]| run.as_bytes() < first;
    let is_behind = |last: &[u8]| run.as_bytes() > last;
    !(statistics.min_bytes_opt().is_some_and(is_before)
        || statistics.max_bytes_opt().is_some_and(is_behind))
}

/// Where a group lies in the file.
fn range_of(group: &RowGroupMetaData) -> Option<Range<u64>> {
    let ranges = || group.columns().iter().map(|column| column.byte_range());
    let begin = ranges().map(|(begin, _)| begin).min()?;
    let end = ranges()
        .map(|(begin, length)| begin.saturating_add(length))
        .max()?;
    Some(begin..end)
}

/// Some bytes of a file, at their place in it.
struct Slice {
    range: Range<u64>,
    bytes: Bytes,
}

impl Slice {
    fn find(
        self,
        description: &ParquetMetaData,
        number: usize,
        run: &str,
    ) -> ParquetResult<Option<String>> {
        let properties = Arc::new(ReaderProperties::builder().build());
        let group = description.row_group(number);
        let index = RowGroupPageIndex::new(number, None);
        let reader = SerializedRowGroupReader::new(Arc::new(self), group, index, properties)?;
        find_in(&reader, run)
    }

    fn at(&self, begin: u64) -> ParquetResult<usize> {
        let place = begin.checked_sub(self.range.start);
        let place = place.and_then(|place| usize::try_from(place).ok());
        place
            .filter(|place| *place <= self.bytes.len())
            .ok_or_else(|| ParquetError::EOF("a group is not where it should be".to_owned()))
    }
}

impl Length for Slice {
    fn len(&self) -> u64 {
        self.range.end
    }
}

impl ChunkReader for Slice {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.bytes.slice(self.at(start)?..).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let begin = self.at(start)?;
        let end = begin.checked_add(length);
        let end = end.filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| ParquetError::EOF("a group is cut off".to_owned()))?;
        Ok(self.bytes.slice(begin..end))
    }
}
