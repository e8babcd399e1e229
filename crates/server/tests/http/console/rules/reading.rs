//! Which pages there are, and how their markup is read.

use anyhow::Result;
use hyper::Method;
use semel_server::{Access, list_routes};

use crate::console::Browser;
use crate::console::stage::Stage;

/// Routes that show no page of their own.
const NO_PAGES: [&str; 5] = [
    "/console",
    "/console/{namespace}/live",
    "/console/{namespace}/audit/export",
    "/console/{namespace}/json/{*rest}",
    "/console/{namespace}/{*rest}",
];

/// Whether a part of a route may be anything.
fn varies(part: &str) -> bool {
    part.starts_with('{') && part.ends_with('}')
}

/// The route that leads to a page: of those that fit, the one that leaves the least open.
pub(in crate::console) fn route_of<'a>(routes: &'a [String], page: &str) -> Option<&'a String> {
    let path = page.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |route: &&String| {
        let of: Vec<&str> = route.split('/').collect();
        let same = |(of, part): (&&str, &&str)| of == part || (varies(of) && !part.is_empty());
        of.len() == parts.len() && of.iter().zip(&parts).all(same)
    };
    let fitting = routes.iter().filter(fits);
    fitting.min_by_key(|route| route.split('/').filter(|part| varies(part)).count())
}

/// Every route of the console that shows a page.
pub(in crate::console) fn page_routes() -> Vec<String> {
    let routes = list_routes().into_iter();
    let shown = routes.filter(|it| it.method == Method::GET && it.access == Access::Console);
    let paths = shown.map(|it| it.path);
    paths
        .filter(|path| !NO_PAGES.contains(&path.as_str()))
        .collect()
}

/// Every page with its text.
pub(super) async fn read_all(
    browser: &Browser<'_>,
    stage: &Stage,
) -> Result<Vec<(String, String)>> {
    let mut read = Vec::new();
    for path in stage.all_pages().await? {
        let page = browser.page(&path).await?;
        read.push((path, page));
    }
    Ok(read)
}

/// What stands between two marks, each time.
pub(super) fn between<'a>(
    text: &'a str,
    from: &'a str,
    to: &'a str,
) -> impl Iterator<Item = &'a str> {
    let pieces = text.split(from).skip(1);
    pieces.map(move |piece| piece.split(to).next().unwrap_or_default())
}

/// The value of an attribute.
pub(super) fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

/// A text as a person reads it.
pub(super) fn unescaped(text: &str) -> String {
    text.replace("&#38;", "&").replace("&amp;", "&")
}
