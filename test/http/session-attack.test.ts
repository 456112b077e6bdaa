import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { newSessionSecret } from "../../src/domain/account/credentials.ts";
import {
  createTestAccount,
  startTestDaemon,
  tempFolder,
  type TestDaemon,
} from "../helpers/daemon.ts";
import { exchange, headerLines, headerOf, toBytes, type RawRequest } from "../helpers/raw-http.ts";
import { sessionName } from "../helpers/session-name.ts";
import { fieldsOf, KEYS, USER_DATA } from "./account.ts";
import { ask, bearer, codeOf, JSON_TYPE, TASK_POST, type Answer } from "./answer.ts";
import {
  cookieLine,
  createLink,
  createOperatorSession,
  FROM_PAGE,
  keySignIn,
  LINK,
  pageGet,
  pagePost,
  secretOf,
  SESSION,
  signedIn,
  signInByKey,
} from "./session-requests.ts";
import { loopbackCertificate, openTls, readToEnd } from "./tls-client.ts";

/** Requests that another site makes a browser send, and cookies that others put into it. */

const REQUESTED = "X-Requested-With: postbackd";

interface Signed {
  readonly daemon: TestDaemon;
  /** The header line of an account's session. */
  readonly cookie: string;
  readonly secret: string;
  /** As the browser names it. */
  readonly host: string;
}

async function startSigned(t: TestContext, toml = ""): Promise<Signed> {
  const daemon = await startTestDaemon(t, { toml });
  const secret = await signInByKey(daemon);
  return { daemon, secret, cookie: cookieLine(daemon.url, secret), host: new URL(daemon.url).host };
}

/** Requests of every kind that a session may make, with its cookie and these header lines. */
function everyRequest({ cookie }: Signed, lines: readonly string[]): readonly RawRequest[] {
  const headers = [cookie, ...lines];
  const typed = [...headers, JSON_TYPE];
  return [
    { target: USER_DATA, headers },
    { target: SESSION, headers },
    { method: "HEAD", target: USER_DATA, headers },
    { method: "POST", target: KEYS, headers },
    { method: "POST", target: TASK_POST, headers: typed, body: "[{}]" },
    { method: "POST", target: SESSION, headers: typed, body: "{}" },
    { method: "POST", target: LINK, headers: typed, body: "{}" },
    { method: "DELETE", target: SESSION, headers },
  ];
}

function assertForbidden({ response, code }: Answer, label: string): void {
  assert.equal(response.status, 403, label);
  if (code !== null) assert.equal(code, 40301, label);
  assert.equal(headerOf(response, "set-cookie"), null);
}

/** Sends every request with these lines and expects 40301; `host` goes without a Host line of the helper. */
async function assertAllForbidden(signed: Signed, lines: readonly string[]): Promise<void> {
  const host = lines.some((line) => line.startsWith("Host:")) ? { host: false as const } : {};
  for (const request of everyRequest(signed, lines)) {
    const label = `${request.target} ${lines.join()}`;
    assertForbidden(await ask(signed.daemon.url, { ...request, ...host }), label);
  }
}

test("a request with a Sec-Fetch-Site other than same-origin is 40301, with every other header too", async (t) => {
  const signed = await startSigned(t);
  const origin = `Origin: http://${signed.host}`;
  // Another port of the host is the same site: cookies and SameSite do not separate them.
  for (const site of ["cross-site", "same-site", "", "Same-Origin", "same-origin, none", "x"]) {
    for (const others of [[], [REQUESTED, origin]]) {
      await assertAllForbidden(signed, [`Sec-Fetch-Site: ${site}`, ...others]);
    }
  }
  const twice = ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site", REQUESTED];
  await assertAllForbidden(signed, twice);
  assert.equal((await signed.daemon.ready()).tasks_count, 0);
});

test("a request without Sec-Fetch-Site is 40301 unless its Origin is its Host", async (t) => {
  const signed = await startSigned(t);
  const { host, daemon } = signed;
  const port = Number(new URL(daemon.url).port);
  const origins = [
    ["null", "http://evil.test", `http://evil.test:${port}`, "http://127.0.0.1"],
    [`http://127.0.0.1:${port === 80 ? 81 : port - 1}`, `http://localhost:${port}`, "", "x", host],
    [`http://${host}.evil.test`, `http://evil.test@${host}`, `http://${host}/x`, `http://${host}?`],
    [`ftp://${host}`, `http://evil.test, http://${host}`, `//${host}`, `http://${host}#`],
  ].flat();
  for (const origin of origins) {
    await assertAllForbidden(signed, [`Host: ${host}`, `Origin: ${origin}`, REQUESTED]);
  }
  for (const origin of [`http://${host}`, `HTTP://${host.toUpperCase()}`, `https://${host}`]) {
    const lines = [`Host: ${host}`, `Origin: ${origin}`, REQUESTED];
    const request = { method: "POST", target: KEYS, headers: [signed.cookie, ...lines] };
    assert.equal(await codeOf(daemon.url, { ...request, host: false }), 20000, origin);
  }
});

test("a request without Sec-Fetch-Site and Origin may read and not write", async (t) => {
  const signed = await startSigned(t);
  for (const request of everyRequest(signed, [REQUESTED])) {
    const answer = await ask(signed.daemon.url, request);
    const isRead = request.method === undefined || request.method === "HEAD";
    if (isRead) assert.equal(answer.response.status, 200, request.target);
    else assertForbidden(answer, String(request.target));
  }
});

test("a session without X-Requested-With: postbackd neither reads nor writes", async (t) => {
  const signed = await startSigned(t);
  for (const other of ["X-Requested-With: x", "X-Requested-With: Postbackd", "X-Other: 1"]) {
    await assertAllForbidden(signed, ["Sec-Fetch-Site: same-origin", other]);
  }
});

test("a sign-in from another site or by a form is refused and does not use up the link", async (t) => {
  const daemon = await startTestDaemon(t);
  const token = await createLink(daemon.file);
  const signIns = [keySignIn(daemon), pagePost(LINK, { token })];
  for (const line of [
    ...["Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "X-Other: 1"],
    ...["Origin: http://evil.test", "Origin: null"],
  ]) {
    for (const signIn of signIns) {
      const request = { ...signIn, headers: [REQUESTED, JSON_TYPE, line] };
      assertForbidden(await ask(daemon.url, request), `${signIn.target} ${line}`);
    }
  }
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
    const headers = [...FROM_PAGE, `Content-Type: ${type}`];
    assert.equal(await codeOf(daemon.url, { ...pagePost(LINK, { token }), headers }), 41500);
  }
  assert.equal(await codeOf(daemon.url, pagePost(LINK, { token })), 20000);
});

test("a foreign Host is 40301 for a browser, and API keys work under it", async (t) => {
  const signed = await startSigned(t);
  const { daemon } = signed;
  const { port } = new URL(daemon.url);
  const names = [
    ["evil.test", "rebind.evil.test", "localhost.evil.test", "127.0.0.1.nip.io", "xlocalhost"],
    ["127.1", "0x7f.1", "2130706433", "127.0.0.1.", "localhost.", "", "[::1", "::1", "[]", "a b"],
    ["localhost@evil.test", "evil.test#localhost", "localhost, evil.test", "[evil.test]"],
    [".localhost."],
  ].flat();
  for (const [i, name] of names.entries()) {
    const host = `Host: ${name}${i % 2 === 0 ? "" : `:${port}`}`;
    await assertAllForbidden(signed, [...FROM_PAGE, host]);
    await assertAllForbidden(signed, [REQUESTED, `Origin: http://${name}:${port}`, host]);
    const page = { target: "/dashboard/", headers: [host], host: false } as const;
    assert.equal((await exchange(daemon.url, page)).status, 403, host);
    const byKey = { target: USER_DATA, headers: [host, bearer(daemon), signed.cookie] };
    assert.equal(await codeOf(daemon.url, { ...byKey, host: false }), 20000, host);
  }
});

test("a browser may use an address, localhost or a name below localhost as Host", async (t) => {
  const signed = await startSigned(t);
  const { port } = new URL(signed.daemon.url);
  const names = ["127.0.0.1", "192.0.2.7", "[::1]", "[2001:db8::7]", "localhost", "LOCALHOST"];
  for (const name of [...names, "postbackd.localhost", "a.b.localhost"]) {
    for (const host of [`Host: ${name}`, `Host: ${name}:${port}`]) {
      const headers = [signed.cookie, ...FROM_PAGE, host];
      const request = { target: USER_DATA, headers, host: false } as const;
      assert.equal(await codeOf(signed.daemon.url, request), 20000, host);
    }
  }
});

test("a browser may use the host of public_url, and its origin through a proxy that rewrites Host", async (t) => {
  const signed = await startSigned(t, 'public_url = "https://pb.example.com:8443/"\n');
  const own = `Host: ${signed.host}`;
  const origin = "Origin: https://pb.example.com:8443";
  for (const [code, ...lines] of [
    [20000, "Host: pb.example.com:8443", origin],
    [20000, "Host: PB.example.com", "Sec-Fetch-Site: same-origin"],
    [20000, own, origin],
    [40301, own, "Origin: https://pb.example.com"],
    [40301, "Host: example.com", origin],
  ] as const) {
    const headers = [signed.cookie, REQUESTED, ...lines];
    const request = { method: "POST", target: KEYS, headers, host: false } as const;
    assert.equal(await codeOf(signed.daemon.url, request), code, lines.join());
  }
});

test("a sign-in makes a new session and ends the one whose cookie it brought", async (t) => {
  const daemon = await startTestDaemon(t);
  const mallory = { ...daemon, account: await createTestAccount(daemon.file, "mallory") };
  for (const planted of [await signInByKey(mallory), newSessionSecret().secret]) {
    const { secret } = await signedIn(
      daemon.url,
      keySignIn(daemon, [cookieLine(daemon.url, planted)]),
    );

    assert.notEqual(secret, planted);
    assert.equal(await codeOf(daemon.url, pageGet(daemon, planted)), 40100);
  }
});

test("a refused sign-in ends no session", async (t) => {
  const { daemon, cookie, secret } = await startSigned(t);
  for (const request of [
    pagePost(SESSION, { login: "tester", key: "x" }, [cookie]),
    pagePost(LINK, { token: "x" }, [cookie]),
  ]) {
    const { code, response } = await ask(daemon.url, request);
    assert.deepEqual([code, headerOf(response, "set-cookie")], [40100, null]);
  }
  assert.equal(await codeOf(daemon.url, pageGet(daemon, secret)), 20000);
});

test("daemons on two ports of a host have cookies of their own and refuse each other's", async (t) => {
  const [first, second] = [await startSigned(t), await startSigned(t)];
  const both = [...FROM_PAGE, `${first.cookie}; ${second.cookie.replace("Cookie: ", "")}`];
  for (const { daemon } of [first, second]) {
    const answer = await ask(daemon.url, { target: USER_DATA, headers: both });
    assert.deepEqual([answer.code, secretOf(answer)], [20000, null]);
  }
  for (const line of [cookieLine(second.daemon.url, first.secret), first.cookie]) {
    const headers = [...FROM_PAGE, line];
    assert.equal(await codeOf(second.daemon.url, { target: USER_DATA, headers }), 40100);
  }
});

test("two session cookies in a request are not a session, and a sign-out ends both", async (t) => {
  const { daemon, cookie, secret } = await startSigned(t);
  const operator = await createOperatorSession(daemon.file);
  const second = cookieLine(daemon.url, operator);
  const pair = second.replace("Cookie: ", "");
  for (const shape of [
    [cookie, second],
    [second, cookie],
    [`${cookie}; ${pair}`],
    [`${cookie};${pair};a=b`],
    [`${cookie}; ${cookie.replace("Cookie: ", "")}`],
  ]) {
    await assertNoSession(daemon, [...FROM_PAGE, ...shape]);
  }
  const headers = [...FROM_PAGE, cookie, second];
  assert.equal(await codeOf(daemon.url, { method: "DELETE", target: SESSION, headers }), 20000);
  for (const each of [secret, operator]) {
    assert.equal(await codeOf(daemon.url, pageGet(daemon, each)), 40100);
  }
});

async function assertNoSession(
  { url }: TestDaemon,
  headers: readonly string[],
  label = headers.join(),
): Promise<void> {
  const { code, response } = await ask(url, { target: USER_DATA, headers });
  assert.equal(code, 40100, label.slice(0, 100));
  const session = await ask(url, { target: SESSION, headers });
  assert.equal(fieldsOf<{ session: unknown }>(session).session, null);
  assert.ok(response.body.length < 1000);
}

test("a session is found among other cookies in every spelling of the header", async (t) => {
  const { daemon, cookie, secret } = await startSigned(t);
  const pair = cookie.replace("Cookie: ", "");
  const [name = ""] = pair.split("=");
  for (const lines of [
    [`Cookie: a=b; ${pair}; c`],
    [`Cookie: ${pair};`],
    [`cookie:${pair}`],
    [`Cookie: ;;; =x; ${name}x=1; x${name}=1;\t${name} = ${secret} `],
    [`Cookie: ${"a=b; ".repeat(2000)}${pair}`],
    ["Cookie: a=b", `Cookie: ${pair}`, "Cookie: c=d"],
    [`Cookie: $Version=1; ${pair}; $Path=/`],
  ]) {
    const request = { target: USER_DATA, headers: [...FROM_PAGE, ...lines] };
    assert.equal(await codeOf(daemon.url, request), 20000, lines.join().slice(0, 100));
  }
});

test("a malformed session cookie is not a session", async (t) => {
  const { daemon, secret } = await startSigned(t);
  const name = sessionName(daemon.url);
  const values = [
    ["", "x", `"${secret}"`, `${secret}=`, `${secret}x`, secret.slice(1), `%${secret.slice(1)}`],
    [`${secret},`, secret.toLowerCase(), `${secret} x`, "\xff".repeat(43), "' OR 1=1 --"],
    ["__proto__", "a".repeat(43), "=".repeat(10_000), '"'.repeat(10_000), "\\".repeat(10_000)],
  ].flat();
  const nameless = [name, `=${secret}`, `${name.toUpperCase()}=${secret}`, ";".repeat(15_000)];
  nameless.push(`__Host-${name}=${secret}`, `__proto__=${secret}`);
  for (const text of [...values.map((value) => `${name}=${value}`), ...nameless]) {
    await assertNoSession(daemon, [...FROM_PAGE, `Cookie: ${text}`]);
  }
  const tooLong = pageGet(daemon, "x".repeat(65_536));
  const { status } = await exchange(daemon.url, tooLong);
  assert.ok(status >= 400 && status < 500, String(status));
  assert.equal((await daemon.call(USER_DATA)).status, 200);
});

test("behind a trusted proxy that forwards HTTPS the cookie is Secure with the prefix __Host-", async (t) => {
  const daemon = await startTestDaemon(t, { toml: 'trusted_proxies = ["127.0.0.1"]\n' });
  const https = "X-Forwarded-Proto: https";
  const { answer, secret } = await signedIn(daemon.url, keySignIn(daemon, [https]));
  const pair = `__Host-${sessionName(daemon.url)}=${secret}`;

  const cookie = `${pair}; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict`;
  assert.deepEqual(headerLines(answer.response, "set-cookie"), [cookie]);
  for (const [code, ...lines] of [
    [20000, https, `Cookie: ${pair}`],
    [40100, https, cookieLine(daemon.url, secret)],
    [40100, `Cookie: ${pair}`],
    [40300, "X-Forwarded-Proto: http", `Cookie: ${pair}`],
  ] as const) {
    const headers = [...FROM_PAGE, ...lines];
    assert.equal(await codeOf(daemon.url, { target: USER_DATA, headers }), code, lines.join());
  }
});

test("a cookie is not Secure if a client that is not a trusted proxy forwards HTTPS", async (t) => {
  const daemon = await startTestDaemon(t);
  const lines = ["X-Forwarded-Proto: https", "Forwarded: proto=https"];
  const { answer } = await signedIn(daemon.url, keySignIn(daemon, lines));

  assert.doesNotMatch(headerOf(answer.response, "set-cookie") ?? "", /__Host-|Secure/);
});

test("with a certificate of its own the daemon sets a Secure cookie with the prefix __Host-", async (t) => {
  const certificate = loopbackCertificate("postbackd");
  const folder = tempFolder(t);
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  writeFileSync(cert, certificate.cert);
  writeFileSync(key, certificate.key);
  const toml = `tls_cert = ${JSON.stringify(cert)}\ntls_key = ${JSON.stringify(key)}\n`;
  const daemon = await startTestDaemon(t, { folder, toml });
  const answerTo = async (request: RawRequest): Promise<string> => {
    const socket = await openTls(t, { url: daemon.url, ca: certificate.cert });
    const headers = [...(request.headers ?? []), "Connection: close"];
    socket.write(toBytes({ ...request, headers }));
    return readToEnd(socket);
  };
  const opened = await answerTo(keySignIn(daemon));
  const name = `__Host-${sessionName(daemon.url)}`;
  const [, secret = ""] = new RegExp(`set-cookie: ${name}=([^;]+); `, "i").exec(opened) ?? [];

  assert.match(opened, /; HttpOnly; Secure; SameSite=Strict\r\n/);
  const headers = [...FROM_PAGE, `Cookie: ${name}=${secret}`];
  assert.match(await answerTo({ target: USER_DATA, headers }), /"login":"tester"/);
  assert.match(await answerTo(pageGet(daemon, secret)), /"status_code":40100/);
  const closed = await answerTo({ method: "DELETE", target: SESSION, headers });
  assert.match(closed, new RegExp(`set-cookie: ${name}=; Path=/; Max-Age=0;`, "i"));
});
