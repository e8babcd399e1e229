//! Files as they are written and read, without a database.

use std::fs;

use bytes::Bytes;
use parquet::file::reader::FileReader as _;
use parquet::file::serialized_reader::SerializedFileReader;
use semel_store::archives::ArchiveFile;
use uuid::Uuid;

use super::*;

const OBJECT: &str = "runs/file.parquet";

fn run(number: u128) -> RunId {
    RunId::from_uuid(Uuid::from_u128(number << 64))
}

fn row(number: u128) -> ArchivedRow {
    ArchivedRow {
        run: run(number).to_string(),
        namespace: "main".to_owned(),
        flow: "orders".to_owned(),
        release: 7,
        key: format!("o-{number}"),
        state: "succeeded".to_owned(),
        accepted_at: Timestamp::UNIX_EPOCH,
        ended_at: Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(number as i64),
        detail: format!("{{\"number\":{number}}}"),
    }
}

/// A file of so many runs in a folder.
async fn written(count: u128) -> (tempfile::TempDir, ArchiveFiles, ArchiveFile) {
    let folder = tempfile::tempdir().unwrap();
    let place = ResourceLocation::Folder(folder.path().to_owned());
    let files = ArchiveFiles::open(&place).unwrap();
    let mut writer = FileWriter::new().unwrap();
    (0..count).for_each(|number| writer.add(row(number)).unwrap());
    let finished = writer.finish().unwrap();
    let spare = SpareFile {
        id: 1,
        object: OBJECT.to_owned(),
    };
    let content = files.write(&spare, finished).await.unwrap();
    let file = ArchiveFile {
        id: 1,
        object: spare.object,
        bytes: content.bytes,
        sha256: content.sha256.to_vec(),
        written_at: content.newest_at,
    };
    (folder, files, file)
}

async fn find(
    files: &ArchiveFiles,
    file: &ArchiveFile,
    run: RunId,
) -> Result<Option<String>, ArchiveError> {
    let memory = Budget::of_bytes(1 << 20);
    let found = files.find(file, (1, run), &memory).await?;
    Ok(found.map(|found| found.text))
}

#[tokio::test]
async fn each_run_of_a_file_is_found_and_no_other() {
    let (_folder, files, file) = written(1_000).await;

    for number in [0, 1, 127, 128, 500, 999] {
        let found = find(&files, &file, run(number)).await.unwrap();
        assert_eq!(found, Some(row(number).detail));
    }
    assert_eq!(find(&files, &file, run(1_000)).await.unwrap(), None);
    assert_eq!(file.written_at, row(999).ended_at, "the newest");
}

/// Everything but the group of the run and the end of the file may be unreadable.
#[tokio::test]
async fn a_run_is_found_by_one_group_of_rows() {
    let (folder, files, file) = written(1_000).await;
    let path = folder.path().join(OBJECT);
    let mut bytes = fs::read(&path).unwrap();
    let reader = SerializedFileReader::new(Bytes::from(bytes.clone())).unwrap();
    let groups = reader.metadata().num_row_groups();
    for group in (0..groups).filter(|group| *group != 3) {
        for column in reader.metadata().row_group(group).columns() {
            let (begin, length) = column.byte_range();
            bytes[begin as usize..(begin + length) as usize].fill(0xff);
        }
    }
    fs::write(&path, bytes).unwrap();

    assert!(groups > 4, "{groups}");
    let found = find(&files, &file, run(400)).await.unwrap();
    assert_eq!(found, Some(row(400).detail));
}

#[tokio::test]
async fn a_file_whose_bytes_changed_is_not_written_anew() {
    let (folder, files, file) = written(3).await;
    let path = folder.path().join(OBJECT);
    let mut bytes = fs::read(&path).unwrap();
    bytes[10] ^= 1;
    fs::write(&path, bytes).unwrap();
    let to = SpareFile {
        id: 2,
        object: "runs/other.parquet".to_owned(),
    };

    let erased = files
        .write_erased(&file, &to, &[run(1)], Timestamp::UNIX_EPOCH)
        .await;

    assert!(matches!(erased, Err(ArchiveError::Broken { .. })));
    assert!(!folder.path().join(&to.object).exists());
}

/// One that this version cannot read keeps what its columns say, and nothing else.
#[tokio::test]
async fn a_run_of_another_version_is_erased_to_what_its_columns_say() {
    let (_folder, files, file) = written(3).await;
    let to = SpareFile {
        id: 2,
        object: "runs/other.parquet".to_owned(),
    };

    let erased = files
        .write_erased(&file, &to, &[run(1)], Timestamp::UNIX_EPOCH)
        .await
        .unwrap()
        .unwrap();

    let new = ArchiveFile {
        id: 1,
        object: to.object,
        bytes: erased.content.bytes,
        sha256: erased.content.sha256.to_vec(),
        written_at: file.written_at,
    };
    let text = find(&files, &new, run(1)).await.unwrap().unwrap();
    assert!(!text.contains("number"), "{text}");
    assert!(
        text.contains("\"key\":\"o-1\"") && text.contains("erased_at"),
        "{text}"
    );
    let other = find(&files, &new, run(2)).await.unwrap();
    assert_eq!(other, Some(row(2).detail));
}

#[tokio::test]
async fn a_large_run_is_read_with_the_memory_that_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let place = ResourceLocation::Folder(folder.path().to_owned());
    let files = ArchiveFiles::open(&place).unwrap();
    let mut writer = FileWriter::new().unwrap();
    let large = ArchivedRow {
        detail: "x".repeat(1 << 20),
        ..row(1)
    };
    writer.add(large).unwrap();
    let spare = SpareFile {
        id: 1,
        object: OBJECT.to_owned(),
    };
    let content = files.write(&spare, writer.finish().unwrap()).await.unwrap();
    let file = ArchiveFile {
        id: 1,
        object: spare.object,
        bytes: content.bytes,
        sha256: content.sha256.to_vec(),
        written_at: content.newest_at,
    };
    let memory = Budget::of_bytes(8 << 20);

    let found = files
        .find(&file, (1, run(1)), &memory)
        .await
        .unwrap()
        .unwrap();
    let meanwhile = memory.try_take(1).is_some();
    drop(found);

    assert!(!meanwhile, "all of it is taken");
    assert!(memory.try_take(8 << 20).is_some());
}
