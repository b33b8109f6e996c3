//! A gzip stream as layers have it: one member or many (pgzip, eStargz), perhaps NUL padding at
//! the end, and nothing else. Every member's checksum and length are checked.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

use crate::error::Error;

/// Inflates all members, one after another.
pub(super) struct Members<R>(State<R>);

enum State<R> {
    Inside(Box<GzDecoder<R>>),
    Between(R),
    Ended,
}

impl<R: BufRead> Members<R> {
    pub(super) fn new(source: R) -> Self {
        Self(State::Between(source))
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            self.0 = match std::mem::replace(&mut self.0, State::Ended) {
                State::Inside(mut member) => match member.read(into)? {
                    0 => State::Between(member.into_inner()),
                    read => {
                        self.0 = State::Inside(member);
                        return Ok(read);
                    }
                },
                State::Between(source) => next_member(source)?,
                State::Ended => return Ok(0),
            };
        }
    }
}

/// What stands where a member ended.
fn next_member<R: BufRead>(mut source: R) -> io::Result<State<R>> {
    match source.fill_buf()?.first() {
        None => Ok(State::Ended),
        Some(0) => skip_padding(source),
        Some(0x1f) => Ok(State::Inside(Box::new(GzDecoder::new(source)))),
        Some(_) => Err(garbage()),
    }
}

fn skip_padding<R: BufRead>(mut source: R) -> io::Result<State<R>> {
    loop {
        let padding = source.fill_buf()?;
        if padding.is_empty() {
            return Ok(State::Ended);
        }
        if padding.iter().any(|byte| *byte != 0) {
            return Err(garbage());
        }
        let len = padding.len();
        source.consume(len);
    }
}

fn garbage() -> io::Error {
    Error::input("layer has bytes after its gzip stream that are neither gzip nor padding").into()
}
