//! A layer: compressed tar bytes, read once into an index of its entries.
