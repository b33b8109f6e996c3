//! The part of the Container Runtime Interface that is used: `runtime.v1`, in Kubernetes'
//! `staging/src/k8s.io/cri-api/pkg/apis/runtime/v1/api.proto`. The tags are its field numbers; fields
//! that are left out are skipped when read.

use std::collections::HashMap;

use super::grpc::Method;

const fn cri(path: &'static str) -> Method {
    Method { path, namespace: None }
}

pub const VERSION: Method = cri("/runtime.v1.RuntimeService/Version");
pub const STATUS: Method = cri("/runtime.v1.RuntimeService/Status");
pub const LIST_CONTAINERS: Method = cri("/runtime.v1.RuntimeService/ListContainers");
pub const CONTAINER_STATUS: Method = cri("/runtime.v1.RuntimeService/ContainerStatus");
pub const LIST_IMAGES: Method = cri("/runtime.v1.ImageService/ListImages");
pub const IMAGE_FS_INFO: Method = cri("/runtime.v1.ImageService/ImageFsInfo");
pub const REMOVE_IMAGE: Method = cri("/runtime.v1.ImageService/RemoveImage");

/// A request without filters, and an answer of which nothing is read.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Nothing {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct VersionResponse {
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    #[prost(string, tag = "3")]
    pub runtime_version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusRequest {
    #[prost(bool, tag = "1")]
    pub verbose: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusResponse {
    /// By arbitrary keys, each value in JSON.
    #[prost(map = "string, string", tag = "2")]
    pub info: HashMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CriListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<CriContainer>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CriContainer {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "4")]
    pub image: Option<ImageSpec>,
    #[prost(string, tag = "5")]
    pub image_ref: String,
    #[prost(string, tag = "10")]
    pub image_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerStatusRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<ContainerStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerStatus {
    #[prost(message, repeated, tag = "14")]
    pub mounts: Vec<Mount>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Mount {
    /// Where it is an image volume; runtimes have it from containerd 2.1 and CRI-O 1.31 on.
    #[prost(message, optional, tag = "9")]
    pub image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ImageSpec {
    #[prost(string, tag = "1")]
    pub image: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CriListImagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<CriImage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CriImage {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, repeated, tag = "2")]
    pub repo_tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub repo_digests: Vec<String>,
    #[prost(uint64, tag = "4")]
    pub size: u64,
    /// Older runtimes do not know it, containerd 1.6.20 for one.
    #[prost(bool, tag = "8")]
    pub pinned: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ImageFsInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub image_filesystems: Vec<FilesystemUsage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct FilesystemUsage {
    /// Nanoseconds since 1970.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub fs_id: Option<FilesystemIdentifier>,
    #[prost(message, optional, tag = "3")]
    pub used_bytes: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct FilesystemIdentifier {
    #[prost(string, tag = "1")]
    pub mountpoint: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RemoveImageRequest {
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}
