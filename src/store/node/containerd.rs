//! The part of containerd's own interface that is used: `api/services/images/v1/images.proto` and
//! `api/services/containers/v1/containers.proto` of containerd. The tags are their field numbers.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use super::grpc::Method;
use crate::store::disk::Timestamp;
use oci::Digest;

/// Where the kubelet's images and containers are.
const fn in_kubernetes(path: &'static str) -> Method {
    Method { path, namespace: Some("k8s.io") }
}

pub const LIST_IMAGES: Method = in_kubernetes("/containerd.services.images.v1.Images/List");
pub const UPDATE_IMAGE: Method = in_kubernetes("/containerd.services.images.v1.Images/Update");
pub const LIST_CONTAINERS: Method = in_kubernetes("/containerd.services.containers.v1.Containers/List");

/// The label by which containerd tells the kubelet that an image is pinned (1.6.33, 1.7.3 and newer).
pub const PIN: (&str, &str) = ("io.cri-containerd.pinned", "pinned");

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerdListImagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<ContainerdImage>,
}

/// A reference: a name that leads to content. An image has several.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerdImage {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(map = "string, string", tag = "2")]
    pub labels: HashMap<String, String>,
    #[prost(message, optional, tag = "3")]
    pub target: Option<ContainerdDescriptor>,
    #[prost(message, optional, tag = "7")]
    pub created_at: Option<ProtoTimestamp>,
}

/// `containerd.types.Descriptor`
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerdDescriptor {
    #[prost(string, tag = "1")]
    pub media_type: String,
    #[prost(string, tag = "2")]
    pub digest: String,
    #[prost(int64, tag = "3")]
    pub size: i64,
    #[prost(map = "string, string", tag = "5")]
    pub annotations: HashMap<String, String>,
}

/// `google.protobuf.Timestamp`
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ProtoTimestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdateImageRequest {
    #[prost(message, optional, tag = "1")]
    pub image: Option<ContainerdImage>,
    #[prost(message, optional, tag = "2")]
    pub update_mask: Option<FieldMask>,
}

/// `google.protobuf.FieldMask`
#[derive(Clone, PartialEq, prost::Message)]
pub struct FieldMask {
    #[prost(string, repeated, tag = "1")]
    pub paths: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerdListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<ContainerdContainer>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerdContainer {
    #[prost(string, tag = "3")]
    pub image: String,
}

impl ContainerdImage {
    #[must_use]
    pub fn created(&self) -> Option<Timestamp> {
        let ProtoTimestamp { seconds, nanos } = self.created_at?;
        let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?.min(999_999_999));
        UNIX_EPOCH.checked_add(since).map(Timestamp::of)
    }

    /// The digest of the manifest or index that the name leads to.
    #[must_use]
    pub fn leads_to(&self) -> Option<Digest> {
        self.target.as_ref()?.digest.parse().ok()
    }

    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.labels.get(PIN.0).is_some_and(|value| value == PIN.1)
    }

    /// The request that pins the reference and leaves its other labels as they are. The mask leaves the
    /// target alone, but it must be there: containerd 1.7 crashes without it.
    #[must_use]
    pub fn pin(&self) -> UpdateImageRequest {
        let labels = [(PIN.0.to_owned(), PIN.1.to_owned())].into();
        let target = Some(self.target.clone().unwrap_or_default());
        let image = Self { name: self.name.clone(), labels, target, created_at: None };
        let mask = FieldMask { paths: vec![format!("labels.{}", PIN.0)] };
        UpdateImageRequest { image: Some(image), update_mask: Some(mask) }
    }
}
