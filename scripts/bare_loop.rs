//! The limit that `scripts/bench` measures a cold rebase against: downloads one blob, hashes it and
//! inflates it, nothing else. `cargo run --package underpin-scripts --bin bare-loop -- http://HOST/v2/NAME/blobs/DIGEST`

#![allow(clippy::print_stdout, clippy::indexing_slicing, reason = "a script")]

use std::error::Error;
use std::io::Read;

use flate2::bufread::MultiGzDecoder;
use oci::Hasher;

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: bare-loop URL")?;
    let rest = url.strip_prefix("http://").ok_or("the URL begins with http://")?;
    let (host, path) = rest.split_once('/').ok_or("the URL has a path")?;
    let mut stream = std::net::TcpStream::connect(host)?;
    std::io::Write::write_all(&mut stream, format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes())?;
    let mut reader = std::io::BufReader::with_capacity(256 << 10, stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if std::io::BufRead::read_line(&mut reader, &mut line)? == 0 {
            return Err("the answer has no body".into());
        }
    }
    let mut compressed = Hashing { from: reader, hasher: Hasher::default() };
    let mut inflated = MultiGzDecoder::new(std::io::BufReader::with_capacity(256 << 10, &mut compressed));
    let size = std::io::copy(&mut inflated, &mut std::io::sink())?;
    println!("{} {size}", compressed.hasher.finish().digest);
    Ok(())
}

struct Hashing<R> {
    from: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(into)?;
        self.hasher.update(&into[..read]);
        Ok(read)
    }
}
