//! The blocks of a PEM file (RFC 7468). What they hold may be a key: it is wiped after use, and never in a message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// A block, by the label between its dashes.
pub struct PemBlock {
    pub label: String,
    pub bytes: Zeroizing<Vec<u8>>,
}

/// The blocks of the file in order. What is between them, and a block that is not base64, is passed over.
pub fn blocks(text: &str) -> Vec<PemBlock> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let Some((label, body)) = after.split_once("-----") else { break };
        let Some((body, after)) = body.split_once(&format!("-----END {label}-----")) else { break };
        let packed: Zeroizing<String> = Zeroizing::new(body.chars().filter(|c| !c.is_ascii_whitespace()).collect());
        if let Ok(bytes) = STANDARD.decode(packed.as_bytes()) {
            found.push(PemBlock { label: label.to_owned(), bytes: Zeroizing::new(bytes) });
        }
        rest = after;
    }
    found
}
