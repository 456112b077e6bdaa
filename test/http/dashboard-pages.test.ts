import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { brotliDecompressSync, gunzipSync, gzipSync, brotliCompressSync } from "node:zlib";

import type { DashboardFile } from "../../src/assets.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { exchange, headerLines, headerOf, type RawResponse } from "../helpers/raw-http.ts";
import { ask } from "./answer.ts";
import { startRing } from "./ring.ts";

const PAGE = "<!doctype html><title>postbackd</title>".padEnd(400, " ");
const SCRIPT = "export {};\n".repeat(50);
const SCRIPT_PATH = "/dashboard/assets/app-0123456789ab.js";

function file(path: string, text: string, more: Partial<DashboardFile> = {}): DashboardFile {
  const body = Buffer.from(text);
  return {
    ...{ path, body, type: "text/html; charset=utf-8", isImmutable: false },
    ...{ gzip: gzipSync(body), brotli: brotliCompressSync(body) },
    ...more,
  };
}

const FILES: readonly DashboardFile[] = [
  file("/dashboard/", PAGE),
  file(SCRIPT_PATH, SCRIPT, { type: "text/javascript; charset=utf-8", isImmutable: true }),
  file("/dashboard/assets/icon-00.svg", "<svg/>", {
    ...{ type: "image/svg+xml", isImmutable: true, gzip: null, brotli: null },
  }),
];

async function startPages(t: TestContext, files: readonly DashboardFile[] = FILES) {
  const ring = await startRing(t, { pages: () => files });
  return (target: string, headers: readonly string[] = [], method = "GET"): Promise<RawResponse> =>
    exchange(ring.url, { method, target, headers });
}

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const SECURITY = [
  [
    "content-security-policy",
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
      "form-action 'none'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; " +
      "trusted-types 'none'",
  ],
  ["x-content-type-options", "nosniff"],
  ["referrer-policy", "no-referrer"],
  ["cross-origin-opener-policy", "same-origin"],
  ["cross-origin-resource-policy", "same-origin"],
] as const;

/** Headers of all pages. */
function assertGuarded(response: RawResponse, what: string): void {
  for (const [name, value] of SECURITY)
    assert.deepEqual(headerLines(response, name), [value], what);
  assert.match(headerOf(response, "permissions-policy") ?? "", /camera=\(\).*geolocation=\(\)/);
  assert.match(headerOf(response, "x-request-id") ?? "", UUID_V7);
  for (const name of ["set-cookie", "access-control-allow-origin", "etag", "server"]) {
    assert.deepEqual(headerLines(response, name), [], `${what} ${name}`);
  }
}

test("each path below /dashboard/ without a file returns the page, uncached", async (t) => {
  const get = await startPages(t);
  const targets = [
    ["/dashboard/", "/dashboard/tasks", "/dashboard/tasks/01890a5d-ac96-774b-bcce-b302099a8057"],
    [
      "/dashboard/?q=state:failed",
      "/dashboard/x/y/z",
      "/dashboard/index.html",
      "/dashboard/%3Cx%3E",
    ],
    ["/dashboard/../dashboard/keys", "/dashboard/__proto__", "/dashboard/assetsx", "/dashboard//"],
    ["/dashboard/..%2f..%2fetc/passwd", "/dashboard/%00", "/dashboard/files.json"],
  ].flat();
  for (const target of targets) {
    const response = await get(target);
    assert.equal(response.status, 200, target);
    assert.equal(response.body.toString(), PAGE);
    assert.equal(headerOf(response, "cache-control"), "no-store");
    assert.equal(headerOf(response, "content-type"), "text/html; charset=utf-8");
    assertGuarded(response, target);
  }
});

test("/dashboard redirects to /dashboard/", async (t) => {
  const get = await startPages(t);
  for (const target of ["/dashboard", "/dashboard?x=//evil.test", "/x/../dashboard"]) {
    const response = await get(target);
    assert.equal(response.status, 308, target);
    assert.equal(headerOf(response, "location"), "/dashboard/");
    assertGuarded(response, target);
  }
});

test("an asset is cached permanently, and a missing asset is 404", async (t) => {
  const get = await startPages(t);
  for (const target of [SCRIPT_PATH, `${SCRIPT_PATH}?v=2`]) {
    const response = await get(target);
    assert.equal(response.status, 200);
    assert.equal(response.body.toString(), SCRIPT);
    assert.equal(headerOf(response, "cache-control"), "public, max-age=31536000, immutable");
    assert.equal(headerOf(response, "content-type"), "text/javascript; charset=utf-8");
    assertGuarded(response, target);
  }
  for (const name of [
    "app-x.js",
    "",
    "../assets/x",
    "__proto__",
    "%00",
    "app-0123456789ab.js.br",
  ]) {
    const response = await get(`/dashboard/assets/${name}`);
    assert.equal(response.status, 404, name);
    assert.equal(headerOf(response, "cache-control"), "no-store");
    assert.match(headerOf(response, "content-type") ?? "", /^text\/plain/);
    assertGuarded(response, name);
  }
});

test("files are compressed as the client accepts", async (t) => {
  const get = await startPages(t);
  const cases: readonly (readonly [readonly string[], string | null])[] = [
    [[], null],
    [["Accept-Encoding: gzip, deflate, br, zstd"], "br"],
    [["Accept-Encoding: gzip"], "gzip"],
    [["Accept-Encoding: GZIP;q=0.5"], "gzip"],
    [["Accept-Encoding: br;q=0, gzip"], "gzip"],
    [["Accept-Encoding: br;q=0.000, *"], "gzip"],
    [["Accept-Encoding: *"], "br"],
    [["Accept-Encoding: *;q=0"], null],
    [["Accept-Encoding: identity"], null],
    [["Accept-Encoding: deflate", "Accept-Encoding: br"], "br"],
    [["Accept-Encoding: "], null],
    [["Accept-Encoding: br;q=x, gzip;q="], null],
    [["Accept-Encoding: xbr, brx, x-gzip"], null],
    [[`Accept-Encoding: ${",;q=".repeat(3000)}`], null],
  ];
  for (const [headers, encoding] of cases) {
    for (const [target, text] of [
      ["/dashboard/", PAGE],
      [SCRIPT_PATH, SCRIPT],
    ] as const) {
      const response = await get(target, headers);
      assert.equal(headerOf(response, "content-encoding"), encoding, headers.join().slice(0, 80));
      assert.equal(headerOf(response, "vary"), "accept-encoding");
      assert.equal(headerOf(response, "content-length"), String(response.body.length));
      const plain = { br: brotliDecompressSync, gzip: gunzipSync, none: (bytes: Buffer) => bytes };
      const decode = encoding === "br" || encoding === "gzip" ? plain[encoding] : plain.none;
      assert.equal(decode(response.body).toString(), text);
    }
  }
  const small = await get("/dashboard/assets/icon-00.svg", ["Accept-Encoding: br"]);
  assert.equal(headerOf(small, "content-encoding"), null);
  assert.equal(small.body.toString(), "<svg/>");
});

const SAME_FOR_HEAD = "content-length content-type content-encoding cache-control vary location";

test("pages accept GET and HEAD only", async (t) => {
  const get = await startPages(t);
  const headers = ["Accept-Encoding: br"];
  for (const target of ["/dashboard/", "/dashboard", SCRIPT_PATH, "/dashboard/assets/x"]) {
    const [full, head] = [await get(target, headers), await get(target, headers, "HEAD")];
    assert.equal(head.status, full.status, target);
    for (const name of SAME_FOR_HEAD.split(" ")) {
      assert.deepEqual(headerLines(head, name), headerLines(full, name), `${target} ${name}`);
    }
    assertGuarded(head, target);
    for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]) {
      const response = await get(target, headers, method);
      assert.equal(response.status, 405, `${method} ${target}`);
      assert.equal(headerOf(response, "allow"), "GET, HEAD");
      assertGuarded(response, method);
    }
  }
});

test("/ redirects a browser to the dashboard, and is 40400 for other clients", async (t) => {
  const ring = await startRing(t, { pages: () => FILES });
  const html = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
  for (const method of ["GET", "HEAD"]) {
    for (const target of ["/", "/?x=1"]) {
      const response = await exchange(ring.url, { method, target, headers: [html] });
      assert.equal(response.status, 303);
      assert.equal(headerOf(response, "location"), "/dashboard/");
      assert.equal(headerOf(response, "vary"), "accept");
    }
  }
  for (const headers of [[], ["Accept: */*"], ["Accept: application/json"]]) {
    assert.equal((await ask(ring.url, { target: "/", headers })).code, 40400);
  }
  assert.equal((await ask(ring.url, { method: "POST", target: "/", headers: [html] })).code, 40400);
});

test("/ redirects a browser to the reference if there is no dashboard", async (t) => {
  const daemon = await startTestDaemon(t, { toml: "dashboard = false\n" });
  const headers = ["Accept: text/html"];
  const response = await exchange(daemon.url, { target: "/", headers });

  assert.equal(response.status, 303);
  assert.equal(headerOf(response, "location"), "/docs");
  assertGuarded(response, "/");
  assert.equal((await ask(daemon.url, { target: "/" })).code, 40400);
  assert.equal((await ask(daemon.url, { target: "/dashboard/", headers })).code, 40400);
});

test("a page that was not built is 503 with the command that builds it", async (t) => {
  const get = await startPages(t, []);
  for (const target of ["/dashboard/", "/dashboard/tasks", SCRIPT_PATH]) {
    const response = await get(target);
    assert.equal(response.status, 503);
    assert.match(headerOf(response, "content-type") ?? "", /^text\/plain/);
    assert.match(response.body.toString(), /npm run build:dashboard/);
    assertGuarded(response, target);
  }
});

test("credentials and cookies do not change a page", async (t) => {
  const daemon = await startTestDaemon(t);
  const { port } = new URL(daemon.url);
  const others = [
    ["Authorization: Bearer nonsense"],
    [`Cookie: postbackd-${port}=${"x".repeat(43)}`],
    ["Sec-Fetch-Site: cross-site", "Origin: http://evil.test", "Sec-Fetch-Mode: navigate"],
  ];
  const plain = await exchange(daemon.url, { target: "/dashboard/" });
  for (const headers of others) {
    // Links in mails lead here too.
    const response = await exchange(daemon.url, { target: "/dashboard/", headers });
    assert.equal(response.status, plain.status);
    assert.deepEqual(response.body, plain.body);
    assertGuarded(response, headers.join());
  }
});

test("a page over plain HTTP is 403 if a proxy serves HTTPS", async (t) => {
  const daemon = await startTestDaemon(t, { toml: 'trusted_proxies = ["127.0.0.1"]\n' });
  const headers = ["X-Forwarded-Proto: http"];
  const response = await exchange(daemon.url, { target: "/dashboard/", headers });

  assert.equal(response.status, 403);
  assert.match(response.body.toString(), /HTTPS/);
  assertGuarded(response, "plain");
});
