//! The manifest of one platform's image.

use serde_json::{Map, Value};

use super::descriptor::{Descriptor, annotations};
use super::document::{DOCUMENT_LIMIT, Document};
use crate::error::{Error, Result};

/// More layers than this are an attack: overlay file systems stop at about 500.
const LAYER_LIMIT: usize = 1_000;

#[derive(Debug, Clone)]
pub struct Manifest {
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
    pub annotations: Map<String, Value>,
}

impl Manifest {
    pub fn read(document: &Document) -> Result<Self> {
        Self::check(document.object()).map_err(|error| error.fact("manifest", document.digest()))
    }

    fn check(object: &Map<String, Value>) -> Result<Self> {
        let config = Descriptor::read(object.get("config").unwrap_or(&Value::Null), "the config")?;
        if !config.media_type.is_image_config() {
            return Err(Error::input("not a container image: its config has another media type")
                .fact("media type", &config.media_type));
        }
        if config.size > DOCUMENT_LIMIT {
            return Err(Error::input("the config is larger than 4 MiB").fact("size", config.size));
        }
        let Some(Value::Array(layers)) = object.get("layers") else {
            return Err(Error::input("the `layers` of the manifest are not a list"));
        };
        if layers.len() > LAYER_LIMIT {
            return Err(
                Error::input(format!("manifest has more than {LAYER_LIMIT} layers")).fact("layers", layers.len())
            );
        }
        let layers = layers
            .iter()
            .enumerate()
            .map(|(at, layer)| Descriptor::read(layer, &format!("layer {}", at + 1)))
            .collect::<Result<_>>()?;
        Ok(Self { config, layers, annotations: annotations(object, "the manifest")? })
    }
}
