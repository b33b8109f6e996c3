//! `underpin` moves a finished container image onto a new base and always gives the same digest.
//!
//! The flow, one value per arrow:
//!
//! ```text
//! argv, env, config file                     registry · layout · archive
//!       │                                              │
//!       ▼                                              ▼
//! cli ► settings ► run ► fetch ► Subject ──► for each platform, one Pass:
//!                                              examine ► Facts     what the source is
//!                                              plan    ► Draft     what it will be: every decision
//!                                              process ► Startup   what a runtime would start
//!                                              policy  ► Findings  every difference that matters
//!       cli ◄ report ◄ Receipt ◄ publish ◄ Assembled ◄ assemble ◄──┘
//! ```
//!
//! Below it are crates of their own: [`oci`], the values and errors; [`elf`], the bytes of a program to its linkage, machine
//! and Go facts; [`layer`], compressed tar bytes to an index of typed entries; [`shell`], a command or script to what it would
//! execute, and where its output goes; [`start`], the virtual root and what a dynamic loader would map on it.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`yaml`] | settings files with lines and columns |
//! | [`process`] | a config on a root to what a runtime would start |
//! | [`examine`] | facts of an image: its old base, its packages, who owns its files |
//! | [`rules`] | the table of rules, and findings |
//! | [`plan`] | every decision: options, command, config, layers, annotations |
//! | [`policy`] | puts the rules to a pass; the base-image policy and the exception list |
//! | [`assemble`] | a draft to final bytes and digests |
//! | [`attest`] | statements about a result: provenance, SBOM; envelopes, keys and signatures |
//! | [`kube`] | Kubernetes manifests as text: commands without their shell, every other byte as it was |
//! | [`store`] | registries, layouts, archives, cache; fetch and publish |
//! | [`sandbox`] | a real start under an OCI runtime, where one was asked for |
//! | [`report`] | one model, one file per format |
//! | [`settings`] | what a run was asked to do |
//! | [`run`], [`verify`], [`check`] | the flow itself, the flow again, and the flow as a question |
//! | [`batch`] | many images: the batch file, the lock file, shards, outdated images |
//! | [`cli`] | one small file per command |
//!
//! A module uses only those listed before it, which a test holds; network and disk are touched in [`store`] only,
//! but for the private directory of a real start ([`sandbox`]).
//!
//! Formats: OCI image-spec 1.1 (documents, layout, annotations), distribution-spec 1.1 (registry
//! protocol), docker's `config.json` and containers' `auth.json` (credentials), docker's image
//! archive, in-toto statements with SLSA provenance, DSSE and sigstore bundles, POSIX tar with PAX and GNU extensions, gzip, zstd; ELF and Go's build
//! info; YAML 1.2 and JSON manifests of Kubernetes, `JUnit` and SARIF; our own are the layer index,
//! the cache and its records of images (`store::disk`), the settings file (`settings`), the report (`docs/reports.md`)
//! and the `dev.underpin.*` annotations.

// Tests put files where they like, and tables of cases are long.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::too_many_lines))]

pub mod assemble;
pub mod attest;
pub mod batch;
pub mod check;
pub mod cli;
pub mod examine;
pub mod kube;
pub mod plan;
pub mod policy;
pub mod process;
pub mod report;
pub mod rules;
pub mod run;
pub mod sandbox;
pub mod settings;
pub mod store;
pub mod verify;
pub mod yaml;

#[cfg(test)]
#[path = "../tests/it/support/skip.rs"]
mod skip;
