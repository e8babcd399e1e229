//! The flows whose runs are copied.

/// Flows by name, each in one or several releases. PEER is where their calls go.
pub(super) const FLOWS: [(&str, &[&str]); 16] = [
    ("orders", &[ORDERS, ORDERS_SECOND, ORDERS_THIRD]),
    ("stock", &[STOCK]),
    ("seldom", &[STOCK]),
    ("failing", &[FAILING]),
    ("sleeping", &[SLEEPING]),
    ("skipping", &[SKIPPING]),
    ("charging", &[CHARGING]),
    ("reviewing", &[REVIEWING]),
    ("retrying", &[RETRYING]),
    ("waiting", &[WAITING]),
    ("asking", &[ASKING]),
    ("working", &[WORKING]),
    ("holding", &[HOLDING]),
    ("emitting", &[EMITTING]),
    ("batch", &[BATCH]),
    ("nightly", &[NIGHTLY]),
];

const ORDERS: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - id: reserve
    http: { post: 'PEER/keyed/reservations', json: { order: '${{ input.id }}' } }
    guard: key
    external_id: result.id
  - id: charge
    http: { post: 'PEER/keyed/charges', json: { order: '${{ input.id }}', amount: 4200 } }
    guard: key
  - id: send
    http: { post: 'PEER/keyed/parcels', json: { order: '${{ input.id }}' } }
    guard: key
result: '{\"order\": input.id}'
";

const ORDERS_SECOND: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - id: reserve
    http: { post: 'PEER/keyed/reservations', json: { order: '${{ input.id }}' } }
    guard: key
    external_id: result.id
  - id: charge
    http: { post: 'PEER/keyed/charges', json: { order: '${{ input.id }}', amount: 4300 } }
    guard: key
  - id: send
    http: { post: 'PEER/keyed/parcels', json: { order: '${{ input.id }}' } }
    guard: key
result: '{\"order\": input.id}'
";

const ORDERS_THIRD: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - id: reserve
    http: { post: 'PEER/keyed/reservations', json: { order: '${{ input.id }}' } }
    guard: key
    external_id: result.id
  - id: charge
    http: { post: 'PEER/keyed/charges', json: { order: '${{ input.id }}', amount: 4400 } }
    guard: key
  - id: send
    http: { post: 'PEER/keyed/parcels', json: { order: '${{ input.id }}' } }
    guard: key
result: '{\"order\": input.id}'
";

const STOCK: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - { id: one, kv: { set: stock/one, value: 1 } }
  - { id: two, kv: { set: stock/two, value: 2 } }
  - { id: three, kv: { set: stock/three, value: 3 } }
result: input.id
";

const FAILING: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - { id: one, kv: { add: tried } }
  - { id: stop, fail: { code: sold-out, message: 'nothing left of ${{ input.id }}' } }
";

const SLEEPING: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - { id: later, wait: { for: 90d } }
";

const SKIPPING: &str = "
trigger: { api: { key: input.id } }
keep: 90d
overlap: { policy: skip }
steps:
  - { id: later, wait: { for: 90d } }
";

const CHARGING: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - id: charge
    http: { post: 'PEER/plain/charges', json: { order: '${{ input.id }}' }, timeout: 5s }
    guard: review
";

const REVIEWING: &str = "
trigger: { api: { key: input.id } }
keep: 90d
retry: { attempts: 2, delay: 10ms, max_delay: 10ms }
steps:
  - id: charge
    http: { post: 'PEER/plain/reviews', json: { order: '${{ input.id }}' } }
    guard: review
";

const RETRYING: &str = "
trigger: { api: { key: input.id } }
keep: 90d
retry: { attempts: 6, delay: 6h, max_delay: 6h, within: 30d }
steps:
  - id: charge
    http: { post: 'PEER/plain/retries', json: { order: '${{ input.id }}' } }
    guard: review
";

const WAITING: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - { id: go, wait: { callback: true, within: 90d } }
";

const ASKING: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - id: sign
    approval: { from: [first], show: '${{ input }}', within: 90d }
result: steps.sign.result.approved
";

const WORKING: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - id: resize
    task: { queue: images, input: '${{ input }}', within: 90d, lease: 30s }
    guard: key
";

const HOLDING: &str = "
trigger: { webhook: { auth: none, key: input.id, mismatch: hold } }
keep: 90d
steps:
  - { id: count, kv: { add: held } }
";

const EMITTING: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - { id: tell, emit: { event: order.paid, data: '${{ input }}' } }
";

const BATCH: &str = "
trigger: { api: { key: input.id } }
keep: 90d
steps:
  - id: each
    foreach:
      in: input.lines
      key: item.id
      steps:
        - { id: count, kv: { add: lines } }
";

const NIGHTLY: &str = "
trigger: { schedule: { cron: '30 8 * * MON-FRI', zone: Europe/Berlin } }
keep: 90d
steps:
  - { id: one, kv: { add: nights } }
";
