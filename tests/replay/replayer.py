"""Index and replay a folder of WARC files with pywb. Run by pywb's own Python, which has no Noria.

python replayer.py index WARCS OUT.cdxj             make pywb's own index of the folder
python replayer.py replay WARCS INDEX ASKED OUT     ask for [[timestamp, URL], ...] in a JSON file, tell in another
"""

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from pywb.apps.frontendapp import FrontEndApp  # noqa: E402
from pywb.indexer.cdxindexer import main as index  # noqa: E402
from werkzeug.test import Client  # noqa: E402


def answers(warcs, cdxj, asked):
    """Return for each request what a visitor of the archive gets: the stored bytes (`id_`) and the page made for browsers."""
    collection = {"index_paths": cdxj, "archive_paths": f"{warcs}/"}
    client = Client(FrontEndApp(custom_config={"collections": {"lake": collection}, "framed_replay": False}))
    return [
        {"stored": told(client, f"{stamp}id_", url), "page": told(client, f"{stamp}mp_", url)}
        for stamp, url in asked
    ]


def told(client, when, url):
    """Return one answer; its headers by lower-case name, its body as Latin-1 text."""
    answer = client.get(f"/lake/{when}/{url}")
    headers = {name.lower(): value for name, value in answer.headers}
    return {"status": answer.status_code, "headers": headers, "body": answer.get_data().decode("latin-1")}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["index", warcs, out]:
            index(["--cdxj", "--sort", "--recurse", "--dir-root", warcs, "--output", out, warcs])
        case ["replay", warcs, cdxj, asked, out]:
            Path(out).write_text(json.dumps(answers(warcs, cdxj, json.loads(Path(asked).read_text()))))
        case _:
            sys.exit(__doc__)
