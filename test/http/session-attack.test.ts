import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

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
import { ask, bearer, JSON_TYPE, TASK_POST, type Answer } from "./answer.ts";
import {
  cookieLine,
  createLink,
  createOperatorSession,
  FROM_PAGE,
  LINK,
  pagePost,
  secretOf,
  SESSION,
  signedIn,
} from "./session-requests.ts";
import { loopbackCertificate, openTls, readToEnd } from "./tls-client.ts";

/** What a browser can be talked into, and what somebody can put into one. */

const REQUESTED = "X-Requested-With: postbackd";
const FORBIDDEN = 40301;

interface Signed {
  readonly daemon: TestDaemon;
  /** The header line of an account's session. */
  readonly cookie: string;
  readonly secret: string;
  /** As the browser names it. */
  readonly host: string;
}

async function signIn(daemon: TestDaemon): Promise<Signed> {
  const { login, key } = daemon.account;
  const { secret } = await signedIn(daemon.url, pagePost(SESSION, { login, key }));
  return { daemon, secret, cookie: cookieLine(daemon.url, secret), host: new URL(daemon.url).host };
}

/** Requests of every kind that a session may make, with these header lines and its cookie alone. */
function everyRequest(
  { cookie }: Pick<Signed, "cookie">,
  lines: readonly string[],
): readonly RawRequest[] {
  const headers = [cookie, ...lines];
  return [
    { target: USER_DATA, headers },
    { target: SESSION, headers },
    { method: "HEAD", target: USER_DATA, headers },
    { method: "POST", target: KEYS, headers },
    { method: "POST", target: TASK_POST, headers: [...headers, JSON_TYPE], body: "[{}]" },
    { method: "POST", target: SESSION, headers: [...headers, JSON_TYPE], body: "{}" },
    { method: "POST", target: LINK, headers: [...headers, JSON_TYPE], body: "{}" },
    { method: "DELETE", target: SESSION, headers },
  ];
}

function assertForbidden({ response, code }: Answer, what: string): void {
  assert.equal(response.status, 403, what);
  if (code !== null) assert.equal(code, FORBIDDEN, what);
  assert.equal(headerOf(response, "set-cookie"), null);
}

test("what another site makes a browser send is refused by Sec-Fetch-Site, whatever else it says", async (t) => {
  const signed = await signIn(await startTestDaemon(t));
  const origin = `Origin: http://${signed.host}`;
  // Another port of the same host is the same site: cookies and SameSite do not tell them apart.
  const sites = ["cross-site", "same-site", "", "Same-Origin", "same-origin, none", "x"];
  for (const site of sites) {
    for (const others of [[], [REQUESTED], [REQUESTED, origin]]) {
      const lines = [`Sec-Fetch-Site: ${site}`, ...others];
      for (const request of everyRequest(signed, lines)) {
        assertForbidden(await ask(signed.daemon.url, request), `${site} ${request.target}`);
      }
    }
  }
  const twice = ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site", REQUESTED];
  for (const request of everyRequest(signed, twice)) {
    assertForbidden(await ask(signed.daemon.url, request), "two of them");
  }
  assert.equal((await signed.daemon.ready()).tasks_count, 0);
});

test("without Sec-Fetch-Site the Origin must be the Host that was asked", async (t) => {
  const signed = await signIn(await startTestDaemon(t));
  const { host, daemon } = signed;
  const port = Number(new URL(daemon.url).port);
  const origins = [
    ["null", "http://evil.test", `http://evil.test:${port}`, "http://127.0.0.1"],
    [`http://127.0.0.1:${port === 80 ? 81 : port - 1}`, `http://localhost:${port}`, "", "x", host],
    [`http://${host}.evil.test`, `http://evil.test@${host}`, `http://${host}/x`, `http://${host}?`],
    [`ftp://${host}`, `http://evil.test, http://${host}`, `//${host}`, `http://${host}#`],
  ].flat();
  for (const origin of origins) {
    for (const request of everyRequest(signed, [`Host: ${host}`, `Origin: ${origin}`, REQUESTED])) {
      assertForbidden(await ask(daemon.url, { ...request, host: false }), `${origin}`);
    }
  }
  for (const origin of [`http://${host}`, `HTTP://${host.toUpperCase()}`, `https://${host}`]) {
    const lines = [`Host: ${host}`, `Origin: ${origin}`, REQUESTED];
    const request = { method: "POST", target: KEYS, headers: [signed.cookie, ...lines] };
    assert.equal((await ask(daemon.url, { ...request, host: false })).code, 20000, origin);
  }
});

test("with neither of the two only what reads passes", async (t) => {
  const signed = await signIn(await startTestDaemon(t));
  for (const request of everyRequest(signed, [REQUESTED])) {
    const answer = await ask(signed.daemon.url, request);
    const isRead = request.method === undefined || request.method === "HEAD";
    if (isRead) assert.equal(answer.response.status, 200, request.target);
    else assertForbidden(answer, String(request.target));
  }
});

test("a session reads and changes nothing without the header that no form, link or image can send", async (t) => {
  const signed = await signIn(await startTestDaemon(t));
  for (const other of ["X-Requested-With: x", "X-Requested-With: Postbackd", "X-Other: 1"]) {
    for (const request of everyRequest(signed, ["Sec-Fetch-Site: same-origin", other])) {
      const answer = await ask(signed.daemon.url, request);
      // Of HEAD there is no body to look into.
      if (request.method === "HEAD") assert.equal(answer.response.status, 403, request.target);
      else assertForbidden(answer, String(request.target));
    }
  }
});

test("nobody is signed in from another site: not by a key, not by a link, which stays good", async (t) => {
  const daemon = await startTestDaemon(t);
  const { login, key } = daemon.account;
  const token = await createLink(daemon.file);
  const foreign = [["Sec-Fetch-Site: cross-site"], ["Sec-Fetch-Site: same-site"], []];
  foreign.push(["Origin: http://evil.test"], ["Origin: null"]);
  for (const lines of foreign) {
    for (const [target, body] of [
      [SESSION, { login, key }],
      [LINK, { token }],
    ] as const) {
      const request = { ...pagePost(target, body), headers: [REQUESTED, JSON_TYPE, ...lines] };
      assertForbidden(await ask(daemon.url, request), `${target} ${lines.join()}`);
    }
  }
  // A form can send neither of these.
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
    const headers = [...FROM_PAGE, `Content-Type: ${type}`];
    const answer = await ask(daemon.url, { ...pagePost(LINK, { token }), headers });
    assert.equal(answer.code, 41500);
  }
  assert.equal((await ask(daemon.url, pagePost(LINK, { token }))).code, 20000);
});

test("by a name that is not the daemon's no browser gets anywhere, and API keys do", async (t) => {
  const signed = await signIn(await startTestDaemon(t));
  const { daemon } = signed;
  const { port } = new URL(daemon.url);
  const names = [
    ["evil.test", "rebind.evil.test", "localhost.evil.test", "127.0.0.1.nip.io", "xlocalhost"],
    ["127.1", "0x7f.1", "2130706433", "127.0.0.1.", "localhost.", "", "[::1", "::1", "[]", "a b"],
    [
      "localhost@evil.test",
      "evil.test#localhost",
      "localhost, evil.test",
      "[evil.test]",
      ".localhost.",
    ],
  ].flat();
  for (const name of names) {
    for (const host of [`Host: ${name}`, `Host: ${name}:${port}`]) {
      for (const lines of [FROM_PAGE, [REQUESTED, `Origin: http://${name}:${port}`]]) {
        for (const request of everyRequest(signed, [...lines, host])) {
          assertForbidden(await ask(daemon.url, { ...request, host: false }), `${host} of API`);
        }
      }
      const page = await exchange(daemon.url, {
        target: "/dashboard/",
        headers: [host],
        host: false,
      });
      assert.equal(page.status, 403, host);
      assert.match(page.body.toString(), /public_url/);
      const byKey = { target: USER_DATA, headers: [host, bearer(daemon), signed.cookie] };
      assert.equal((await ask(daemon.url, { ...byKey, host: false })).code, 20000, host);
    }
  }
});

test("browsers may come by an address, by localhost and what is below it", async (t) => {
  const signed = await signIn(await startTestDaemon(t));
  const { port } = new URL(signed.daemon.url);
  const names = ["127.0.0.1", "192.0.2.7", "[::1]", "[2001:db8::7]", "localhost", "LOCALHOST"];
  for (const name of [...names, "postbackd.localhost", "a.b.localhost"]) {
    for (const host of [`Host: ${name}`, `Host: ${name}:${port}`]) {
      const headers = [signed.cookie, ...FROM_PAGE, host];
      const request = { target: USER_DATA, headers, host: false } as const;
      assert.equal((await ask(signed.daemon.url, request)).code, 20000, host);
    }
  }
});

test("browsers may come by the host of public_url, and from its origin through a proxy that rewrites Host", async (t) => {
  const toml = 'public_url = "https://pb.example.com:8443/"\n';
  const signed = await signIn(await startTestDaemon(t, { toml }));
  const statusOf = async (...lines: string[]): Promise<number> => {
    const headers = [signed.cookie, REQUESTED, ...lines];
    const request = { method: "POST", target: KEYS, headers, host: false } as const;
    return (await ask(signed.daemon.url, request)).response.status;
  };
  const origin = "Origin: https://pb.example.com:8443";

  assert.equal(await statusOf("Host: pb.example.com:8443", origin), 200);
  assert.equal(await statusOf("Host: PB.example.com", "Sec-Fetch-Site: same-origin"), 200);
  assert.equal(await statusOf(`Host: ${signed.host}`, origin), 200);
  assert.equal(await statusOf(`Host: ${signed.host}`, "Origin: https://pb.example.com"), 403);
  assert.equal(await statusOf("Host: example.com", origin), 403);
});

test("a cookie that was there before the sign-in opens nothing after it", async (t) => {
  const daemon = await startTestDaemon(t);
  const other = await createTestAccount(daemon.file, "mallory");
  const planted = await signedIn(
    daemon.url,
    pagePost(SESSION, { login: "mallory", key: other.key }),
  );
  const made = newSessionSecret().secret;
  const { login, key } = daemon.account;
  for (const secret of [planted.secret, made]) {
    const lines = [cookieLine(daemon.url, secret)];
    const { secret: fresh } = await signedIn(daemon.url, pagePost(SESSION, { login, key }, lines));

    assert.notEqual(fresh, secret);
    // The planted one was ended by that.
    const headers = [...FROM_PAGE, cookieLine(daemon.url, secret)];
    assert.equal((await ask(daemon.url, { target: USER_DATA, headers })).code, 40100);
  }
});

test("a sign-in that is refused ends no session", async (t) => {
  const { daemon, cookie } = await signIn(await startTestDaemon(t));
  for (const request of [
    pagePost(SESSION, { login: "tester", key: "x" }, [cookie]),
    pagePost(LINK, { token: "x" }, [cookie]),
  ]) {
    const refused = await ask(daemon.url, request);
    assert.equal(refused.code, 40100);
    assert.equal(headerOf(refused.response, "set-cookie"), null);
  }
  const headers = [...FROM_PAGE, cookie];
  assert.equal((await ask(daemon.url, { target: USER_DATA, headers })).code, 20000);
});

test("daemons on other ports of the host have cookies of their own, which mean nothing to each other", async (t) => {
  const first = await signIn(await startTestDaemon(t));
  const second = await signIn(await startTestDaemon(t));
  const both = [...FROM_PAGE, `${first.cookie}; ${second.cookie.replace("Cookie: ", "")}`];
  for (const { daemon } of [first, second]) {
    const answer = await ask(daemon.url, { target: USER_DATA, headers: both });
    assert.equal(answer.code, 20000);
    assert.equal(secretOf(answer), null);
  }
  const headers = [...FROM_PAGE, cookieLine(second.daemon.url, first.secret)];
  assert.equal((await ask(second.daemon.url, { target: USER_DATA, headers })).code, 40100);
  const named = [...FROM_PAGE, first.cookie];
  assert.equal((await ask(second.daemon.url, { target: USER_DATA, headers: named })).code, 40100);
});

test("of two cookies of the name none counts, in one header or two, and signing out ends both", async (t) => {
  const { daemon, cookie, secret } = await signIn(await startTestDaemon(t));
  const operator = await createOperatorSession(daemon.file);
  const second = cookieLine(daemon.url, operator);
  const pair = second.replace("Cookie: ", "");
  const shapes = [
    [cookie, second],
    [second, cookie],
    [`${cookie}; ${pair}`],
    [`${cookie};${pair};a=b`],
    [`${cookie}; ${cookie.replace("Cookie: ", "")}`],
  ];
  for (const shape of shapes) {
    const headers = [...FROM_PAGE, ...shape];
    assert.equal((await ask(daemon.url, { target: USER_DATA, headers })).code, 40100);
    const session = await ask(daemon.url, { target: SESSION, headers });
    assert.equal(fieldsOf<{ session: unknown }>(session).session, null);
  }
  const headers = [...FROM_PAGE, cookie, second];
  assert.equal((await ask(daemon.url, { method: "DELETE", target: SESSION, headers })).code, 20000);
  for (const each of [secret, operator]) {
    const lines = [...FROM_PAGE, cookieLine(daemon.url, each)];
    assert.equal((await ask(daemon.url, { target: SESSION, headers: lines })).code, 20000);
    assert.equal((await ask(daemon.url, { target: USER_DATA, headers: lines })).code, 40100);
  }
});

test("a session is found among other cookies, however the header is written", async (t) => {
  const { daemon, cookie, secret } = await signIn(await startTestDaemon(t));
  const pair = cookie.replace("Cookie: ", "");
  const [name = ""] = pair.split("=");
  const fine = [
    [`Cookie: a=b; ${pair}; c`],
    [`Cookie: ${pair};`],
    [`cookie:${pair}`],
    [`Cookie: ;;; =x; ${name}x=1; x${name}=1;\t${name} = ${secret} `],
    [`Cookie: ${"a=b; ".repeat(2000)}${pair}`],
    ["Cookie: a=b", `Cookie: ${pair}`, "Cookie: c=d"],
    [`Cookie: $Version=1; ${pair}; $Path=/`],
  ];
  for (const lines of fine) {
    const answer = await ask(daemon.url, { target: USER_DATA, headers: [...FROM_PAGE, ...lines] });
    assert.equal(answer.code, 20000, lines.join().slice(0, 100));
  }
});

test("a hostile Cookie header is no session, and costs nobody anything", async (t) => {
  const { daemon, secret } = await signIn(await startTestDaemon(t));
  const name = sessionName(daemon.url);
  const values = [
    ["", "x", `"${secret}"`, `${secret}=`, `${secret}x`, secret.slice(1), `%${secret.slice(1)}`],
    [
      `${secret},`,
      secret.toLowerCase(),
      `${secret} x`,
      "\xff".repeat(43),
      "' OR 1=1 --",
      "__proto__",
    ],
    ["a".repeat(43), "=".repeat(10_000), '"'.repeat(10_000), "\\".repeat(10_000)],
  ].flat();
  for (const value of values) {
    const headers = [...FROM_PAGE, `Cookie: ${name}=${value}`];
    const answer = await ask(daemon.url, { target: USER_DATA, headers });
    assert.equal(answer.code, 40100, value.slice(0, 60));
    const session = await ask(daemon.url, { target: SESSION, headers });
    assert.equal(fieldsOf<{ session: unknown }>(session).session, null);
  }
  const nameless = [name, `${name}`, `=${secret}`, `${name.toUpperCase()}=${secret}`];
  nameless.push(`__Host-${name}=${secret}`, `__proto__=${secret}`, ";".repeat(15_000));
  for (const text of nameless) {
    const headers = [...FROM_PAGE, `Cookie: ${text}`];
    const answer = await ask(daemon.url, { target: USER_DATA, headers });
    assert.equal(answer.code, 40100, text.slice(0, 60));
    assert.equal(headerOf(answer.response, "set-cookie"), null);
  }
  // More than any header may have.
  const headers = [...FROM_PAGE, `Cookie: ${name}=${"x".repeat(65_536)}`];
  const tooLong = await exchange(daemon.url, { target: USER_DATA, headers });
  assert.ok(tooLong.status >= 400 && tooLong.status < 500, String(tooLong.status));
  assert.equal((await daemon.call(USER_DATA)).status, 200);
});

test("behind a proxy that says HTTPS the cookie is the host's alone and Secure, and the other is none", async (t) => {
  const daemon = await startTestDaemon(t, { toml: 'trusted_proxies = ["127.0.0.1"]\n' });
  const { login, key } = daemon.account;
  const https = "X-Forwarded-Proto: https";
  const { answer, secret } = await signedIn(daemon.url, pagePost(SESSION, { login, key }, [https]));
  const name = `__Host-${sessionName(daemon.url)}`;

  const cookie = `${name}=${secret}; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict`;
  assert.deepEqual(headerLines(answer.response, "set-cookie"), [cookie]);
  const codeOf = async (...lines: string[]): Promise<number | null> =>
    (await ask(daemon.url, { target: USER_DATA, headers: [...FROM_PAGE, ...lines] })).code;
  assert.equal(await codeOf(https, `Cookie: ${name}=${secret}`), 20000);
  assert.equal(await codeOf(https, cookieLine(daemon.url, secret)), 40100);
  assert.equal(await codeOf(`Cookie: ${name}=${secret}`), 40100);
  assert.equal(await codeOf("X-Forwarded-Proto: http", `Cookie: ${name}=${secret}`), 40300);
});

test("what somebody who is no trusted proxy says of HTTPS changes no cookie", async (t) => {
  const daemon = await startTestDaemon(t);
  const { login, key } = daemon.account;
  const lines = ["X-Forwarded-Proto: https", "Forwarded: proto=https"];
  const { answer } = await signedIn(daemon.url, pagePost(SESSION, { login, key }, lines));

  assert.doesNotMatch(headerOf(answer.response, "set-cookie") ?? "", /__Host-|Secure/);
});

test("over TLS of its own the cookie is the host's alone and Secure, and is taken back", async (t) => {
  const certificate = loopbackCertificate("postbackd");
  const folder = tempFolder(t);
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  writeFileSync(cert, certificate.cert);
  writeFileSync(key, certificate.key);
  const toml = `tls_cert = ${JSON.stringify(cert)}\ntls_key = ${JSON.stringify(key)}\n`;
  const daemon = await startTestDaemon(t, { folder, toml });
  const answerTo = async (request: RawRequest): Promise<string> => {
    const socket = await openTls(t, { url: daemon.url, ca: certificate.cert });
    socket.write(
      toBytes({ ...request, headers: [...(request.headers ?? []), "Connection: close"] }),
    );
    return readToEnd(socket);
  };
  const { login, key: accountKey } = daemon.account;
  const opened = await answerTo(pagePost(SESSION, { login, key: accountKey }));
  const name = `__Host-${sessionName(daemon.url)}`;
  const [, secret = ""] = new RegExp(`set-cookie: ${name}=([^;]+); `, "i").exec(opened) ?? [];

  assert.match(opened, /; HttpOnly; Secure; SameSite=Strict\r\n/);
  const headers = [...FROM_PAGE, `Cookie: ${name}=${secret}`];
  assert.match(await answerTo({ target: USER_DATA, headers }), /"login":"tester"/);
  const plain = [...FROM_PAGE, cookieLine(daemon.url, secret)];
  assert.match(await answerTo({ target: USER_DATA, headers: plain }), /"status_code":40100/);
  const closed = await answerTo({ method: "DELETE", target: SESSION, headers });
  assert.match(closed, new RegExp(`set-cookie: ${name}=; Path=/; Max-Age=0;`, "i"));
});
