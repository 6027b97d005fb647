"""Archives that are the same bytes each time: sorted, with one time and without the names of this machine's users."""

import gzip
import io
import tarfile


class File:
    """A file (`data`), or a folder (`None`), as it stands in an archive."""

    def __init__(self, path, data=None, mode=None, owner=0):
        self.path, self.data, self.owner = path, data, owner
        self.mode = mode if mode is not None else (0o755 if data is None else 0o644)


def with_folders(files):
    """The same in order, with the folders they are in."""
    found = {file.path: file for file in files}
    for file in files:
        parts = file.path.split("/")
        for end in range(1, len(parts)):
            folder = "/".join(parts[:end])
            found.setdefault(folder, File(folder))
    return [found[path] for path in sorted(found)]


def tar(files, when, prefix=""):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in with_folders(files):
            entry = tarfile.TarInfo(prefix + file.path)
            entry.mode, entry.mtime, entry.uid, entry.gid = file.mode, when, file.owner, file.owner
            if file.data is None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                entry.size = len(file.data)
                archive.addfile(entry, io.BytesIO(file.data))
    return out.getvalue()


def gz(data, level=9):
    return gzip.compress(data, level, mtime=0)
