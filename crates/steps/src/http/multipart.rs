//! `multipart/form-data`, the same bytes on every try.
//!
//! The boundary is derived from the effect's key and from everything that is sent. So a retry
//! sends what was sent before, and no content can hold its own boundary: it would have to hold a
//! hash of itself.

use semel_model::request::MultipartField;
use semel_model::{EffectId, Fault};
use sha2::{Digest as _, Sha256};

use super::body::Content;
use crate::resources::ResourceStore;

/// The parts as they are sent.
pub(super) async fn content(
    parts: &[MultipartField],
    key: Option<EffectId>,
    store: &dyn ResourceStore,
    namespace_id: i32,
) -> Result<Content, Fault> {
    let boundary = boundary(parts, key);
    let mut content = Content::default();
    for part in parts {
        content.append(head(part, &boundary)?.as_bytes());
        match (&part.file, &part.text) {
            (Some(file), _) => content.append_file(file, store, namespace_id).await?,
            (None, Some(text)) => content.append(text.as_bytes()),
            (None, None) => {}
        }
        content.append(b"\r\n");
    }
    content.append(format!("--{boundary}--\r\n").as_bytes());
    content.media_type = Some(format!("multipart/form-data; boundary={boundary}"));
    Ok(content)
}

fn boundary(parts: &[MultipartField], key: Option<EffectId>) -> String {
    let mut hash = Sha256::new();
    let key = key.map(|key| key.to_string()).unwrap_or_default();
    let fields = parts.iter().flat_map(|part| {
        let fields = [&part.text, &part.file, &part.file_name];
        std::iter::once(part.name.as_str())
            .chain(fields.map(|field| field.as_deref().unwrap_or_default()))
    });
    for field in std::iter::once(key.as_str()).chain(fields) {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    }
    // A resource is named by its content, so its name stands for its bytes.
    format!("semel-{}", hex::encode(&hash.finalize()[..20]))
}

fn head(part: &MultipartField, boundary: &str) -> Result<String, Fault> {
    let mut head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"",
        escape(&part.name)
    );
    if part.file.is_some() {
        let name = part.file_name.as_deref().unwrap_or("file");
        head.push_str(&format!("; filename=\"{}\"", escape(name)));
        head.push_str("\r\nContent-Type: application/octet-stream");
    }
    if head.contains('\0') {
        let message = format!("the part {:?} cannot be sent", part.name);
        return Err(Fault::permanent("bad-request", message));
    }
    head.push_str("\r\n\r\n");
    Ok(head)
}

/// As browsers do it: what would end the name or the line is percent-encoded.
fn escape(text: &str) -> String {
    text.replace('\r', "%0D")
        .replace('\n', "%0A")
        .replace('"', "%22")
}
