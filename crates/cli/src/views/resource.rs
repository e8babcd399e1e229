//! Resources.

use semel_api::types::Resource;

use crate::style::{Style, cell, render};
use crate::text::ago;

/// Resources of any runs.
pub(crate) fn table(resources: &[Resource], style: Style) -> String {
    let header = [
        "RESOURCE", "KEPT", "EXPIRES", "BYTES", "TYPE", "NAME", "STEP", "RUN",
    ];
    let mut table = style.table(&header);
    for resource in resources {
        table.add_row([
            cell(resource.resource.to_string()),
            cell(ago(resource.created_at)),
            cell(ago(resource.expires_at)),
            cell(resource.bytes.to_string()),
            cell(&resource.media_type),
            cell(resource.name.as_deref().unwrap_or("-")),
            cell(resource.step.as_deref().unwrap_or("uploaded")),
            cell(
                resource
                    .run
                    .map_or_else(|| "-".to_owned(), |run| run.to_string()),
            ),
        ]);
    }
    render(&table)
}
