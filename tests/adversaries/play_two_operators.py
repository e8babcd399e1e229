"""Two operators decide about one doubt at the same moment, many times: one decision, one record, at most one effect."""
from harness import *
N = int(os.environ.get("N", 20))
pg, a, b = world(2, SEMEL_LEASE="2s", SEMEL_SETTLE_MARGIN="1s")
hit = {}
def answer(m, p, body, h, n):
    o = json.loads(body)["o"]; hit[o] = hit.get(o, 0) + 1
    return None if hit[o] == 1 else (200, {"id": "x"})
d = Destination(answer)
flow(a, "f", f"flow: f\ntrigger: {{ api: {{ key: input.id }} }}\nsteps:\n  - id: c\n    http: {{ post: '{d.url}/c', json: {{ o: '${{{{ input.id }}}}' }}, timeout: 1s }}\n    guard: review\n  - {{ id: n, kv: {{ add: n }} }}\n")
time.sleep(1)
runs = {f"k{i}": start(a, "f", {"id": f"k{i}"})[0] for i in range(N)}
until(lambda: pg.one("select count(*) from runs where state='in_doubt'") == str(N), 20)
time.sleep(5)
effs = {k: "eff_" + pg.one(f"select replace(id::text,'-','') from effects where replace(run_id::text,'-','')='{r[4:]}' and step='c'") for k, r in runs.items()}
res = []
def settle(s, e, yes):
    r = cli(s, "doubt", "settle", e, "--happened" if yes else "--did-not-happen", "--reason", "looked", *(["--result", "null"] if yes else []))
    res.append((e, yes, r.code))
import concurrent.futures as cf
with cf.ThreadPoolExecutor(8) as ex:
    for k, e in effs.items(): ex.submit(settle, a, e, True); ex.submit(settle, b, e, False)
until(lambda: pg.one("select count(*) from runs where state in ('active','in_doubt')") == "0", 30)
ok = {e: [y for (x, y, c) in res if x == e and c == 0] for e in effs.values()}
both = [e for e, y in ok.items() if len(y) > 1]; none = [e for e, y in ok.items() if not y]
audits = {e: int(pg.one(f"select count(*) from audit where subject='{e}' and action like 'doubt.settle%'")) for e in effs.values()}
wrong = [k for k, e in effs.items() if hit[k] != (1 if ok[e] == [True] else 2)]
log("both accepted", both, "none", len(none), "audit counts", sorted(set(audits.values())), "wrong counts at the destination", wrong, "states", pg.sql("select state, count(*) from runs group by 1"), {c for _, _, c in res})
verdict("two-operators", bool(both or wrong or any(v != 1 for e, v in audits.items() if ok[e])), f"{N} doubts; both accepted {len(both)}, wrong effects {len(wrong)}, audit {sorted(set(audits.values()))}")
