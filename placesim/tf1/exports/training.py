"""Clusters, and what runs training."""

from __future__ import annotations

ROWS = {
    "cluster_spec": "train.ClusterSpec train.replica_device_setter",
    "protos": "train.ClusterDef=ClusterDef train.ServerDef=ServerDef",
}
