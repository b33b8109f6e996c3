//! The bytes of an input as choices. Where they are used up every choice is the first, which is the ordinary one.

pub struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Choices<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit.max(1)
    }

    /// Whether something odd is done: of 256 bytes, 32 say so.
    pub fn rarely(&mut self) -> bool {
        self.byte() & 7 == 7
    }

    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Bytes as they stand in the input.
    pub fn raw(&mut self) -> &'a [u8] {
        let (raw, rest) = self.rest.split_at(self.below(64).min(self.rest.len().saturating_sub(1)));
        self.rest = rest;
        raw
    }

    /// Raw bytes as text.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.raw()).into_owned()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}
