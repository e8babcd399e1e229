//! Stories, storms and tidiness, told through the real binary.
