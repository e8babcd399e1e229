"""A run that this build cannot read holds a business key, and every other run of the key waits for it: an operator can free it.

(A journal written by a newer build after a roll-back, or a damaged row. Here a row is spoilt by hand.)"""
from harness import *
pg, a = world(1, SEMEL_LEASE="3s", SEMEL_SETTLE_MARGIN="1s")
mode = ["lose"]
d = Destination(lambda m, p, b, h, n: None if mode[0] == "lose" else (200, {"id": 1}))
flow(a, "f", f"flow: f\ntrigger: {{ api: {{ key: input.id }} }}\nretry: {{ attempts: 9, delay: 20s, max_delay: 30s, within: 30s }}\nsteps:\n  - id: c\n    key: '\"k/\" + input.order'\n    http: {{ post: '{d.url}/x', json: {{ a: 1 }} }}\n    guard: key\n")
r1, _ = start(a, "f", {"id": "1", "order": "o"}); until(lambda: d.count("POST", "/x") == 1, 8); time.sleep(1)
pg.sql(f"update journal set events = '[{{\"event\":\"of tomorrow\"' || '}}]' where replace(run_id::text,'-','')='{r1[4:]}' and seq = (select max(seq) from journal where replace(run_id::text,'-','')='{r1[4:]}')") if os.environ.get("NEWER") else \
pg.sql(f"update journal set events = '[{{\"event\":\"ended\",\"state\":\"succeeded\"}},{{\"event\":\"ended\",\"state\":\"succeeded\"}}]'::json where replace(run_id::text,'-','')='{r1[4:]}' and seq = (select max(seq) from journal where replace(run_id::text,'-','')='{r1[4:]}')")
pg.sql("update queue set due_at = now() where holder is null"); mode[0] = "ok"
until(lambda: state(pg, r1) == "quarantined", 20); log("run 1", state(pg, r1), "name", pg.sql("select state from named_effects"))
r2, _ = start(a, "f", {"id": "2", "order": "o"}); time.sleep(3); log("run 2", state(pg, r2))
key = pg.one("select replace(id::text,'-','') from named_effects")
tries = {"cancel": ["run", "cancel", r1, "--reason", "x"], "resume": ["run", "resume", r1, "--reason", "x"], "replay": ["run", "replay", r1], "settle": ["doubt", "settle", "eff_" + key, "--did-not-happen", "--reason", "x"], "key drop": ["key", "drop", "f", "1", "--reason", "x"],
         "once free": ["once", "free", "eff_" + key, "--reason", "x"]}
out = {k: cli(a, *v) for k, v in tries.items()}; time.sleep(3)
for k, r in out.items(): log(k, r.code, (r.out + r.err).strip().splitlines()[:1])
until(lambda: state(pg, r2) != "active", 40, 1)
log("run 1", state(pg, r1), "run 2", state(pg, r2), pg.one(f"select fault->>'code' from runs where replace(id::text,'-','')='{r2[4:]}'"), "name", pg.sql("select state from named_effects"))
verdict("unreadable-holds-key", pg.one("select state from named_effects") == "pending", f"the name is held for ever; run 2 is {state(pg, r2)}; cancel, resume, replay, settle, drop, free: {[r.code for r in out.values()]}")
