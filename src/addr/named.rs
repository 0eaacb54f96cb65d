//! Enums whose values have a name and a sentence, for models and reports.

/// Declares an enum with `ALL`, `name()`, `doc()` and its name as `Display`; each value is `/// sentence`, then `Variant = "name"`.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $enum:ident {
        $($(#[doc = $doc:literal])+ $variant:ident = $name:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $enum {
            $($(#[doc = $doc])+ $variant),+
        }

        impl $enum {
            /// Every one, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Name used in machine models and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// What it stands for, in a sentence.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+)),+ }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

pub(crate) use named;
