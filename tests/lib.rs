//! Stories, chaos and tidiness, told through the real binary.
