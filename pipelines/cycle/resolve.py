"""Resolve, between demand and allot: every host's address, since hosts of one address share a clock and a partition."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from lake import staging
from lake.schema import TIMESTAMP
from pipelines.cycle import policies
from pipelines.cycle.frontier import host_rows
from pipelines.cycle.hoststate import epoch_ms, moment
from pipelines.cycle.turn import Turn
from pipelines.net.dns import DnsError, Resolver
from pipelines.rules import urls
from pipelines.rules.addresses import AddressPolicy, refusal
from pipelines.rules.outcome import Outcome

ADDRESSES = pa.schema(
    [
        pa.field("host", pa.string()),
        pa.field("address", pa.string()),  # the one used in this cycle; null = none
        pa.field("fault", pa.string()),  # the outcome that stands in the way
        pa.field("fault_detail", pa.string()),
        pa.field("addresses", pa.list_(pa.string())),
        pa.field("addresses_expire_at", TIMESTAMP),
    ]
)


class Found(NamedTuple):
    """What is known of a host's addresses."""

    addresses: list[str] | None
    expires_at: datetime | None
    fault: str | None = None
    detail: str | None = None


def resolve(turn: Turn, group: int) -> dict[str, Any]:
    """Stage `plan/addresses-G.arrow`, a row a demanded host, in the order of the demand, then one a companion.

    Companions that have nothing due themselves are staged too: `plan/companions-G.arrow`, HOSTS columns and
    `due` = 0. This is the only part of the plan that asks the network; its answers are staged, so that the rest
    can be repeated.
    """
    if found := turn.done("resolve", group):
        return found
    company = companions(turn, group)
    demanded = staging.read_table(turn.staged("plan", f"demand-{group:04d}.arrow"))
    company = company.select(demanded.column_names)
    staging.write_table(turn.staged("plan", f"companions-{group:04d}.arrow"), company)
    names = ["host", "addresses", "addresses_expire_at", "probe_at"]
    hosts = pa.concat_tables([demanded.select(names), company.select(names)]).to_pylist()
    answers = asyncio.run(_look_up(turn, hosts))
    policy = policies.address_policy(turn.settings)
    rows = [
        choose(host["host"], answer, policy, cycle=turn.cycle)
        for host, answer in zip(hosts, answers, strict=True)
    ]
    columns = zip(*rows, strict=True) if rows else ((),) * len(ADDRESSES)
    arrays = [pa.array(values, field.type) for field, values in zip(ADDRESSES, columns, strict=True)]
    staging.write_table(
        turn.staged("plan", f"addresses-{group:04d}.arrow"),
        pa.Table.from_arrays(arrays, schema=ADDRESSES),
        durable=True,
    )
    return turn.finish(
        "resolve", group, {"hosts": len(rows), "faults": sum(row[2] is not None for row in rows)}
    )


def companions(turn: Turn, group: int) -> pa.Table:
    """Return the rows of a group's hosts that another group's, or its own, hosts with something due need beside them."""
    named: set[str] = set()
    due: set[str] = set()
    low, high = turn.key_range(group)
    for other in range(turn.groups):
        rows = staging.read_table(
            turn.staged("plan", f"demand-{other:04d}.arrow"), columns=["host", "companion"]
        )
        for text in rows["companion"].drop_null().to_pylist():
            named.update(text.split())
        if other == group:
            due.update(rows["host"].to_pylist())
    mine = sorted(name for name in named - due if low <= urls.host_key(name) <= high)
    found = host_rows(turn, turn.lake(), group, mine)
    nothing = pa.repeat(pa.scalar(0, pa.int64()), found.num_rows)
    return found.append_column("due", nothing).append_column("sitemaps_due", nothing)


async def _look_up(turn: Turn, hosts: list[dict[str, Any]]) -> list[Found]:
    resolver = Resolver(policies.dns_policy(turn.settings))
    try:
        return list(await asyncio.gather(*(_one(turn, resolver, host) for host in hosts)))
    finally:
        await resolver.close()


async def _one(turn: Turn, resolver: Resolver, host: dict[str, Any]) -> Found:
    if epoch_ms(host["probe_at"]) > turn.opened_ms:
        return Found(host["addresses"], host["addresses_expire_at"])  # not asked in this cycle
    if host["addresses"] and epoch_ms(host["addresses_expire_at"]) > turn.opened_ms:
        return Found(host["addresses"], host["addresses_expire_at"])
    try:
        answer = await resolver.resolve(host["host"])
    except DnsError as error:
        return Found(None, None, error.outcome.value, str(error))
    return Found(list(answer.addresses), moment(answer.expires_ms))


def choose(host: str, found: Found, policy: AddressPolicy, *, cycle: int) -> tuple[Any, ...]:
    """Return the row of a host: of its addresses that may be reached the cycle takes one, the next cycle the next.

    A name that has good and bad addresses loses the bad ones only.
    """
    refusals = {address: refusal(address, policy, port=0) for address in found.addresses or ()}
    good = [address for address, reason in refusals.items() if reason is None]
    if good:
        return (host, good[cycle % len(good)], None, None, found.addresses, found.expires_at)
    if refusals:
        address, reason = next(iter(refusals.items()))
        detail = f"{host} has the address {address}: {reason}"
        return (host, None, Outcome.ADDRESS_REFUSED.value, detail, found.addresses, found.expires_at)
    return (host, None, found.fault, found.detail, found.addresses, found.expires_at)
