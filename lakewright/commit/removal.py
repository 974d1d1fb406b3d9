"""Which live files a change takes out of a snapshot, and what goes with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakewright.commit.change import SnapshotChange
from lakewright.errors import StalePlan
from lakewright.format.data_file import DATA, DataFile, ManifestFile


@dataclass
class Removal:
    """Data and delete files go by path, deletion vectors by the data file they are of, and whatever is only of a removed data file goes with it.

    Fed with all files that may be meant, it remembers which were found.
    """

    change: SnapshotChange
    _paths: set[str] = field(default_factory=set)
    _vectors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._new_vectors = {f.referenced_data_file for f in self.change.added if f.is_vector}

    def concerns(self, manifest: ManifestFile) -> bool:
        """Whether the manifest may hold a file to take out, or one that must not be there."""
        if manifest.content == DATA:
            return len(self._paths) < len(self.change.removed)
        return bool(self.change.removed or self.change.removed_vectors or self._new_vectors)

    def among(self, files: Iterable[DataFile]) -> bool:
        """Whether some of the live files of a manifest go; all of them are looked at."""
        found = [self._found(file) for file in files]
        return True in found

    def takes(self, file: DataFile) -> bool:
        of = file.referenced_data_file
        if of is not None and of in self.change.removed:
            return True
        return of in self.change.removed_vectors if file.is_vector else file.file_path in self.change.removed

    def check(self) -> None:
        """Every removed file must have been found."""
        gone = (self.change.removed - self._paths) | (self.change.removed_vectors - self._vectors)
        if gone:
            raise StalePlan(
                f"{len(gone)} of the files this {self.change.name} replaces are gone, among them {min(gone)}: "
                "another commit rewrote or deleted them. Run the operation again on the table as it is now."
            )

    def _found(self, file: DataFile) -> bool:
        goes = self.takes(file)
        if file.file_path in self.change.removed:
            self._paths.add(file.file_path)
        if file.is_vector and file.referenced_data_file is not None:
            if goes:
                self._vectors.add(file.referenced_data_file)
            elif file.referenced_data_file in self._new_vectors:
                raise StalePlan(
                    f"This {self.change.name} adds a deletion vector for {file.referenced_data_file}, which has one already in {file.file_path}; "
                    "a data file has one at most. Run the operation again on the table as it is now."
                )
        return goes
