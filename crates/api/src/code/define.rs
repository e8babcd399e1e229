//! What the list of codes makes of each line.

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $status:literal $title:literal $hint:literal;)*) => {
        /// The kind of an error: a stable word, with a page of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The HTTP status that it comes with; 0 where no server answered.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// The kind of error, for people.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// What to do.
            pub const fn hint(self) -> &'static str {
                match self { $(Self::$variant => $hint,)* }
            }

            /// The page's text.
            pub const fn page_text(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../../../docs/errors/", $name, ".md")),)*
                }
            }

            /// The path of the page in the repository.
            pub const fn page(self) -> &'static str {
                match self { $(Self::$variant => concat!("docs/errors/", $name, ".md"),)* }
            }
        }
    };
}

pub(super) use codes;
