// A real OpenID provider in a process of its own: npm's oidc-provider, with accounts and clients that a
// test sets while it runs. It signs in whoever names an account, without a password.
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const modules = process.env.OIDC_MODULES;
const load = (path) => import(pathToFileURL(`${modules}/${path}`));
const { default: Provider } = await load('oidc-provider/lib/index.js');
const jose = await load('jose/dist/webapi/index.js');

const accounts = new Map();
const stores = new Map();

class Memory {
  constructor(name) {
    if (!stores.has(name)) stores.set(name, new Map());
    this.rows = stores.get(name);
  }
  async upsert(id, payload) { this.rows.set(id, payload); }
  async find(id) { return this.rows.get(id); }
  async findByUid(uid) { return [...this.rows.values()].find((row) => row.uid === uid); }
  async findByUserCode() { return undefined; }
  async destroy(id) { this.rows.delete(id); }
  async consume(id) { const row = this.rows.get(id); if (row) row.consumed = Math.floor(Date.now() / 1000); }
  async revokeByGrantId(grant) {
    for (const [id, row] of this.rows) if (row.grantId === grant) this.rows.delete(id);
  }
}

const keys = [];
for (const [alg, kid] of [['RS256', 'rsa'], ['ES256', 'ec'], ['EdDSA', 'ed']]) {
  const options = { extractable: true, ...(alg === 'EdDSA' ? { crv: 'Ed25519' } : {}) };
  const { privateKey } = await jose.generateKeyPair(alg, options);
  keys.push({ ...(await jose.exportJWK(privateKey)), kid, use: 'sig' });
}

const server = createServer();
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  adapter: Memory,
  jwks: { keys },
  scopes: ['openid', 'profile', 'email', 'groups'],
  claims: { openid: ['sub'], profile: ['name', 'preferred_username'], email: ['email'], groups: ['groups'] },
  conformIdTokenClaims: process.env.OIDC_LEAN !== undefined,
  enabledJWA: { idTokenSigningAlgValues: ['RS256', 'PS256', 'ES256', 'EdDSA'] },
  features: { backchannelLogout: { enabled: true }, devInteractions: { enabled: true } },
  cookies: { keys: ['test'] },
  // It reaches Semel on this machine, which its own guard against internal addresses would forbid.
  fetch: (url, { dispatcher, ...options }) => globalThis.fetch(url, options),
  findAccount: (_, id) => accounts.has(id) && { accountId: id, claims: () => ({ sub: id, ...accounts.get(id) }) },
  // Nobody is asked whether Semel may know them.
  async loadExistingGrant(ctx) {
    const { client, session } = ctx.oidc;
    const id = session.grantIdFor(client.clientId);
    if (id) return provider.Grant.find(id);
    const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope('openid profile email groups');
    await grant.save();
    return grant;
  },
});
provider.on('backchannel.error', (_, error) => console.log(`back-channel: ${error.message}`));
const callback = provider.callback();

server.on('request', async (request, response) => {
  if (!request.url.startsWith('/test/')) return callback(request, response);
  const parts = [];
  for await (const part of request) parts.push(part);
  const said = JSON.parse(Buffer.concat(parts).toString() || 'null');
  const [, , what, id] = request.url.split('/');
  if (what === 'account') said === null ? accounts.delete(id) : accounts.set(id, said);
  if (what === 'client') stores.set('Client', new Map([[id, said]]));
  if (what === 'sessions') stores.get('Session')?.clear();
  response.end();
});
console.log(`issuer ${issuer}`);
