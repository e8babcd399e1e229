//! What an expression may cost, at compile time and at run time.
//!
//! Together they keep every evaluation under 50 ms and 64 MiB: a step of fuel is well under half a
//! microsecond of work, and every byte that an evaluation makes is counted and never given back.

/// Bytes of source text.
pub const SOURCE_BYTES_MAX: usize = 4 * 1024;
/// Brackets inside brackets, counted before the parser sees the text.
pub const BRACKET_DEPTH_MAX: usize = 24;
/// Nodes of the parsed tree.
pub const NODE_COUNT_MAX: usize = 500;
/// Levels of the lowered tree, which is how deep an evaluation recurses.
pub const NODE_DEPTH_MAX: usize = 100;
/// Comprehensions inside comprehensions.
pub const COMPREHENSION_DEPTH_MAX: usize = 2;
/// Bytes that a compiled pattern of `matches` may take.
pub const PATTERN_BYTES_MAX: usize = 64 * 1024;
/// Steps of one evaluation.
pub const FUEL_MAX: u32 = 100_000;
/// Elements of a list that is made or walked.
pub const LIST_LEN_MAX: usize = 10_000;
/// Bytes that one evaluation may make, all intermediate values together.
pub const MADE_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// Bytes of a result, as JSON.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Levels of a result. JSON readers stop at 128, and a result must be read back.
pub const OUTPUT_DEPTH_MAX: usize = 100;
