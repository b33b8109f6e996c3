//! A kubelet's look at a node: the images as CRI v1 lists them.

use std::path::Path;

use tonic::client::Grpc;
use tonic::transport::Endpoint;

#[derive(Clone, PartialEq, prost::Message)]
struct Nothing {}

#[derive(Clone, PartialEq, prost::Message)]
struct Listed {
    #[prost(message, repeated, tag = "1")]
    images: Vec<Image>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Image {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, repeated, tag = "2")]
    pub repo_tags: Vec<String>,
    #[prost(bool, tag = "8")]
    pub pinned: bool,
}

pub fn images(socket: &Path) -> Vec<Image> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
    let listed = runtime.block_on(async {
        let mut client = Grpc::new(endpoint.connect().await.unwrap());
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/runtime.v1.ImageService/ListImages");
        let codec = tonic_prost::ProstCodec::<Nothing, Listed>::default();
        client.unary(tonic::Request::new(Nothing {}), path, codec).await.unwrap().into_inner()
    });
    listed.images
}
