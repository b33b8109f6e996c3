//! What a user may ask for that decides the result, beside source, bases and platforms.

use super::moved::Taking;

/// How output that went to a file gets there without a shell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogChoice {
    /// klog where it is proven, else a runner where there is one.
    #[default]
    Auto,
    Klog,
    Runner,
    Stdout,
}

/// How klog's flags are spelled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KlogStyle {
    /// As the binary shows.
    #[default]
    Auto,
    Dash,
    Underscore,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    pub taking: Taking,
    pub logs: LogChoice,
    pub klog_style: KlogStyle,
    /// Variables of the image whose values are written into its command. Sorted.
    pub freeze: Vec<String>,
    /// Said by those who know better; an empty list clears it.
    pub entrypoint: Option<Vec<String>>,
    pub cmd: Option<Vec<String>>,
}

impl LogChoice {
    pub const ALL: [Self; 4] = [Self::Auto, Self::Klog, Self::Runner, Self::Stdout];

    /// The word of the flag and of the record.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Klog => "klog",
            Self::Runner => "runner",
            Self::Stdout => "stdout",
        }
    }
}

impl KlogStyle {
    pub const ALL: [Self; 3] = [Self::Auto, Self::Dash, Self::Underscore];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dash => "dash",
            Self::Underscore => "underscore",
        }
    }
}
