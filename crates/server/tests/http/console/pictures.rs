//! The pictures of the README and of docs/console.md: taken of the console as it is, so that none grows old.
//!
//! `.ci/pictures` sets `SEMEL_DOC_PICTURES` to the folder that they are written to. Without it they are taken
//! all the same, and looked at for their size.

mod showcase;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::browser::browse;
use showcase::Showcase;

/// The most bytes of a picture: a README that loads slowly is not read.
const BYTES_MAX: u64 = 150_000;

/// A picture: its name, the page, the size of the window, and whether it is dark.
struct Picture {
    name: &'static str,
    page: String,
    size: (u32, u32),
    is_dark: bool,
}

fn wide(name: &'static str, page: impl Into<String>, height: u32) -> Picture {
    Picture {
        name,
        page: page.into(),
        size: (1_280, height),
        is_dark: false,
    }
}

fn list(showcase: &Showcase) -> Vec<Picture> {
    let Showcase {
        doubt, approval, ..
    } = showcase;
    vec![
        wide("overview", "/", 1_000),
        Picture {
            is_dark: true,
            ..wide("overview-dark", "/", 1_000)
        },
        wide("key", "/keys?key=order-1042", 760),
        wide("run", format!("/runs/{}", showcase.doubted), 900),
        wide("doubt", format!("/effects/{doubt}"), 1_180),
        wide(
            "duplicates",
            format!("/runs/{}/duplicates", showcase.repeated),
            600,
        ),
        wide("flow", "/flows/order-paid", 980),
        Picture {
            size: (390, 844),
            is_dark: true,
            ..wide("approval-phone", format!("/approvals/{approval}"), 0)
        },
    ]
}

#[tokio::test]
async fn the_pictures_of_the_documentation_can_be_taken_and_are_small() -> Result<()> {
    let showcase = Showcase::start().await?;
    let (pictures, link) = (list(&showcase), showcase.link().await?);
    let base = format!("http://{}/console/main", showcase.world.address);
    let scratch = tempfile::tempdir()?;
    let folder = std::env::var_os("SEMEL_DOC_PICTURES");
    let folder = folder.map_or_else(|| scratch.path().to_owned(), PathBuf::from);

    let seen = browse(move |browser| {
        browser.look(1_280, 900, false)?;
        browser.open(&link, "location.pathname === '/console/main/'")?;
        for picture in &pictures {
            let (width, height) = picture.size;
            browser.look(width, height, picture.is_dark)?;
            let there = "document.querySelector('.same button.copy')";
            browser.open(&format!("{base}{}", picture.page), there)?;
            let file = folder.join(format!("{}.png", picture.name));
            browser.picture_of_window(&file)?;
            must_be_small(&file)?;
        }
        ensure!(browser.seen.is_empty(), "{:?}", browser.seen);
        Ok(pictures.len())
    })
    .await?;

    assert_eq!(seen, 8);
    Ok(())
}

fn must_be_small(file: &Path) -> Result<()> {
    let size = std::fs::metadata(file).context("the picture")?.len();
    ensure!(
        (5_000..=BYTES_MAX).contains(&size),
        "{}: {size} bytes",
        file.display()
    );
    Ok(())
}

/// Every picture that a page shows is there, and every one that is there is shown and is small.
#[test]
fn the_documentation_shows_every_picture() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md"))?;
    let mut count = 0;

    for file in std::fs::read_dir(root.join("docs/console"))? {
        let path = file?.path();
        let name = path.file_name().context("a name")?.to_string_lossy();
        count += 1;
        ensure!(
            readme.contains(&format!("](docs/console/{name})")),
            "README.md does not show {name}"
        );
        must_be_small(&path)?;
    }

    assert_eq!(count, 8, "eight pictures");
    Ok(())
}
