"""A deterministic web on loopback that knows its own truth: for the demo, the tests and the benchmarks.

    from pipelines.toyweb import Mix, ToyWeb, serve_in_thread
    from pipelines.toyweb import conf, judge

    web = ToyWeb(hosts=40, seed=1, mix=Mix.demo())     # Mix.plain(): clean hosts only; Mix.full(): all, at full strength
    with serve_in_thread(web) as server:               # port 0 = any; one 127.x address a host
        toml = conf.crawler_conf(web)                  # [identity], [security], [dns.static] for a crawler
        seeds = web.seeds(server.port)                 # all else is found from these
        ...                                            # crawl
        rows = server.log.rows()
    assert not judge.violations(rows, judge.delays(web, floor_ms=1_000))
    assert judge.coverage(rows, web, server.port).missing == ()

The truth: `web.known(url)` (status, outcome, links, robots, trap), `web.urls(port)` (all of them), `web.payload(url, now_ms)`,
`web.changes(url, start_ms, end_ms)`. `server.run(web, port, log_path)` serves in the foreground; `log.read(path)` reads a log,
also while it grows. Layers: chance, words, schedule -> hosts -> answer -> pages -> robots, sitemaps, traps, odd -> truth -> server.
"""

from pipelines.toyweb.hosts import MIXES, Host, Kind, Mix
from pipelines.toyweb.log import Log, Row
from pipelines.toyweb.server import RunningServer, ToyServer, run, serve_in_thread
from pipelines.toyweb.truth import Known, ToyWeb

__all__ = [
    "MIXES",
    "Host",
    "Kind",
    "Known",
    "Log",
    "Mix",
    "Row",
    "RunningServer",
    "ToyServer",
    "ToyWeb",
    "run",
    "serve_in_thread",
]
