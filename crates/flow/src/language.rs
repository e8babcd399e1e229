//! The grammar of a flow file: the file, its steps, and the JSON Schema of both.
//!
//! The reader, the JSON Schema, the formatter and the canonical form all go by these tables, so
//! that none of them can know a field that the others do not. What a table cannot say (which
//! guard fits which step) is said by the checks behind the reader.

mod flow;
mod schema;
mod shapes;
mod step;

pub use schema::schema;
pub use shapes::value_shapes;

pub(crate) use flow::FLOW;
pub(crate) use step::STEP;
