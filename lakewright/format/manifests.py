"""Manifests and manifest lists: the files that say which data and delete files a snapshot has."""

from lakewright.format.manifest_reader import read_manifest, read_manifest_list
from lakewright.format.manifest_writer import UNASSIGNED, assign_row_ids, write_manifest, write_manifest_list

__all__ = ["UNASSIGNED", "assign_row_ids", "read_manifest", "read_manifest_list", "write_manifest", "write_manifest_list"]
