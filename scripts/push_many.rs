//! Pushes all images of a layout that `sample-images` wrote to a registry without TLS, fast enough for ten thousand:
//! `cargo run --package underpin-scripts --bin push-many -- LAYOUT HOST:PORT REPOSITORY`. The image with the tag `a7` becomes
//! `REPOSITORY/a7:v1`. Layers that two images share are mounted.

#![allow(clippy::disallowed_methods, clippy::indexing_slicing, reason = "a script")]

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

type Failure = Box<dyn Error + Send + Sync>;

const AT_ONCE: usize = 8;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [layout, host, repository] = words.as_slice() else {
        return Err("usage: push-many LAYOUT HOST REPOSITORY".into());
    };
    let blobs = PathBuf::from(layout).join("blobs/sha256");
    let index: Value = serde_json::from_slice(&fs::read(PathBuf::from(layout).join("index.json"))?)?;
    let images = index["manifests"].as_array().ok_or("no manifests")?;
    let (next, shared) = (AtomicUsize::new(0), Mutex::new(HashMap::new()));
    std::thread::scope(|scope| {
        let push = || -> Result<(), Failure> {
            let mut to =
                Pusher { stream: BufReader::new(TcpStream::connect(host)?), host, blobs: &blobs, shared: &shared };
            while let Some(image) = images.get(next.fetch_add(1, Ordering::Relaxed)) {
                let tag = image["annotations"]["org.opencontainers.image.ref.name"].as_str().unwrap_or("none");
                to.image(&format!("{repository}/{tag}"), image)?;
            }
            Ok(())
        };
        let pushing: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(push)).collect();
        pushing.into_iter().try_for_each(|pushed| pushed.join().map_err(|_| Failure::from("a thread has stopped"))?)
    })
}

struct Pusher<'a> {
    stream: BufReader<TcpStream>,
    host: &'a str,
    blobs: &'a PathBuf,
    /// The repository that has a layer.
    shared: &'a Mutex<HashMap<String, String>>,
}

impl Pusher<'_> {
    fn image(&mut self, repository: &str, entry: &Value) -> Result<(), Failure> {
        let manifest = self.read(entry)?;
        let parts: Value = serde_json::from_slice(&manifest)?;
        for part in parts["layers"].as_array().into_iter().flatten().chain([&parts["config"]]) {
            self.blob(repository, part)?;
        }
        let media_type = entry["mediaType"].as_str().unwrap_or_default();
        self.ask("PUT", &format!("/v2/{repository}/manifests/v1"), media_type, &manifest)?;
        Ok(())
    }

    fn read(&self, of: &Value) -> Result<Vec<u8>, Failure> {
        let digest = of["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).ok_or("no digest")?;
        Ok(fs::read(self.blobs.join(digest))?)
    }

    fn blob(&mut self, repository: &str, of: &Value) -> Result<(), Failure> {
        let digest = of["digest"].as_str().ok_or("no digest")?;
        let holder = self.shared.lock().map_err(|_| "poisoned")?.get(digest).cloned();
        let uploads = format!("/v2/{repository}/blobs/uploads/");
        let opened = match holder {
            Some(holder) => self.ask("POST", &format!("{uploads}?mount={digest}&from={holder}"), "", b"")?,
            None => self.ask("POST", &uploads, "", b"")?,
        };
        let Some(place) = opened else { return Ok(()) };
        let path = place.strip_prefix(&format!("http://{}", self.host)).unwrap_or(&place).to_owned();
        let bytes = self.read(of)?;
        self.ask("PUT", &format!("{path}&digest={digest}"), "application/octet-stream", &bytes)?;
        self.shared.lock().map_err(|_| "poisoned")?.insert(digest.to_owned(), repository.to_owned());
        Ok(())
    }

    /// Sends a request; yields where an upload goes on, if that is the answer.
    fn ask(&mut self, method: &str, path: &str, media_type: &str, body: &[u8]) -> Result<Option<String>, Failure> {
        let (host, length) = (self.host, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        self.stream.get_mut().write_all(&[head.as_bytes(), body].concat())?;
        let (mut status, mut place, mut length) = (String::new(), None, 0);
        self.stream.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "location" => place = Some(value.to_owned()),
                "content-length" => length = value.parse()?,
                _ => {}
            }
        }
        let mut rest = vec![0; length];
        self.stream.read_exact(&mut rest)?;
        match status.split(' ').nth(1) {
            Some("201") => Ok(None),
            Some("202") => Ok(place),
            _ => Err(format!("{method} {path}: {status}{}", String::from_utf8_lossy(&rest)).into()),
        }
    }
}
