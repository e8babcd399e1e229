//! Stories, chaos and tidiness, through the real binary.
