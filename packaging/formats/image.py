"""estop-VERSION-x86_64-image.tar: a container image, the layout of OCI and what older `docker load` reads in one file."""

import hashlib
import json
import subprocess
from datetime import datetime, timezone

from archives import File, gz, tar
from contents import DATA_DIR, SUMMARY

# Nobody's own: a number that no user of a host has.
USER = 65532


def make(contents):
    tree = [
        File("usr/bin/estop", contents.binary.data, 0o755),
        *(File(f"usr/share/doc/estop/{name}", licence) for name, licence in contents.licences.items()),
        File("etc/passwd", f"root:x:0:0:root:/root:/sbin/nologin\nestop:x:{USER}:{USER}:estop:{DATA_DIR}:/sbin/nologin\n".encode()),
        File("etc/group", f"root:x:0:\nestop:x:{USER}:\n".encode()),
        File("etc/estop"),
        File("tmp", mode=0o1777),
        File(DATA_DIR[1:], mode=0o700, owner=USER),
        *libraries(contents.binary),
    ]
    plain = tar(tree, contents.when)
    layer = gz(plain, contents.level)
    moment = datetime.fromtimestamp(contents.when, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    # Certificate authorities are in the binary.
    config = as_json({
        "created": moment,
        "architecture": contents.binary.oci,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"4100/tcp": {}, "4101/tcp": {}},
            "Env": ["PATH=/usr/bin", f"HOME={DATA_DIR}", f"ESTOP_DATA_DIR={DATA_DIR}"],
            "Entrypoint": ["/usr/bin/estop"],
            "Cmd": ["serve"],
            "Volumes": {DATA_DIR: {}},
            "WorkingDir": DATA_DIR,
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "estop",
                "org.opencontainers.image.description": SUMMARY,
                "org.opencontainers.image.version": contents.version,
                "org.opencontainers.image.created": moment,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(plain)]},
        "history": [{"created": moment, "created_by": "scripts/package"}],
    })
    manifest = as_json({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("application/vnd.oci.image.config.v1+json", config),
        "layers": [described("application/vnd.oci.image.layer.v1.tar+gzip", layer)],
    })
    name = f"estop:{contents.version}"
    entry = described("application/vnd.oci.image.manifest.v1+json", manifest) | {
        "platform": {"architecture": contents.binary.oci, "os": "linux"},
        "annotations": {"io.containerd.image.name": f"docker.io/library/{name}", "org.opencontainers.image.ref.name": contents.version},
    }
    layout = [
        File("oci-layout", as_json({"imageLayoutVersion": "1.0.0"})),
        File("index.json", as_json({"schemaVersion": 2, "manifests": [entry]})),
        File("manifest.json", as_json([{"Config": place(config), "RepoTags": [name], "Layers": [place(layer)]}])),
        *(File(place(blob), blob) for blob in (config, manifest, layer)),
    ]
    return f"estop-{contents.version}-{contents.binary.arch}-image.tar", tar(layout, contents.when)


def libraries(binary):
    """The loader and the libraries of a dynamic binary: copies of this machine's."""
    if binary.glibc is None:
        return []
    said = subprocess.run(["ldd", binary.path], capture_output=True, text=True, check=True).stdout
    paths = {word for word in said.split() if word.startswith("/")}
    return [File(path[1:], open(path, "rb").read(), 0o755) for path in sorted(paths)]


def as_json(value):
    return json.dumps(value, sort_keys=True).encode()


def digest(blob):
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def described(kind, blob):
    return {"mediaType": kind, "digest": digest(blob), "size": len(blob)}


def place(blob):
    return f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}"
