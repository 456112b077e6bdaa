import assert from "node:assert/strict";
import { channel } from "node:diagnostics_channel";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test, type TestContext } from "node:test";

import { cpuMsOf } from "../helpers/cpu-time.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { headerOf, openRaw, toBytes, toChunks } from "../helpers/raw-http.ts";
import {
  ask,
  askOn,
  bearer,
  complaints,
  JSON_TYPE,
  posting,
  TASK_POST,
  toAnswer,
} from "./answer.ts";

const LIMIT = 4096;
const CHUNKED = "Transfer-Encoding: chunked";

/** A body that is a task of exactly so many bytes. */
function taskOf(bytes: number): string {
  const frame = '{"input":""}';
  return `{"input":"${"x".repeat(bytes - frame.length)}"}`;
}

function startLimited(t: TestContext): Promise<TestDaemon> {
  return startTestDaemon(t, { toml: `[limits]\nbody = ${LIMIT}\n` });
}

/** The answer to a body as `application/json`. */
async function codeOf(daemon: TestDaemon, body: string | Uint8Array): Promise<number | null> {
  return (await ask(daemon.url, posting(daemon, body))).code;
}

test("a declared length over the limit is refused before the first byte of the body", async (t) => {
  const daemon = await startLimited(t);
  for (const length of [LIMIT + 1, 10_000_000_000, Number.MAX_SAFE_INTEGER]) {
    const headers = [bearer(daemon), JSON_TYPE, `Content-Length: ${length}`];
    const { code } = await ask(daemon.url, { method: "POST", target: TASK_POST, headers });
    assert.equal(code, 41300);
  }
});

test("a chunked body without an end is refused when it is over the limit, and its connection closed", async (t) => {
  const daemon = await startLimited(t);
  const connection = await openRaw(t, daemon.url);
  const headers = [bearer(daemon), JSON_TYPE, CHUNKED];
  connection.send(toBytes({ method: "POST", target: TASK_POST, headers }));
  connection.send(`${(LIMIT + 1).toString(16)}\r\n${"x".repeat(LIMIT + 1)}\r\n`);

  assert.equal(toAnswer(await connection.next()).code, 41300);
  assert.equal((await connection.closed()).length, 0);
  assert.equal((await ask(daemon.url, { target: "/livez" })).response.status, 200);
});

/** Connects as a client does that writes its whole request before it reads. */
async function openWriter(t: TestContext, { daemon }: TestDaemon) {
  const writer = connect({ host: "127.0.0.1", port: daemon.port });
  t.after(() => writer.destroy());
  await once(writer, "connect");
  writer.on("error", () => {}).pause();
  return {
    /** Rejects if the server resets the connection. */
    write: (bytes: Uint8Array): Promise<void> =>
      new Promise((resolve, reject) => {
        writer.write(bytes, (error) => (error ? reject(error) : resolve()));
      }),
    async read(): Promise<string> {
      let text = "";
      for await (const chunk of writer.setEncoding("utf8")) text += chunk;
      return text;
    },
  };
}

const SENT = 16_000_000;
const LONG = "x".repeat(SENT);
const UNREAD = [
  { what: "a body that is too long", code: 41300, headers: [JSON_TYPE], body: LONG },
  {
    ...{ what: "a body in chunks that is too long", code: 41300 },
    ...{ headers: [JSON_TYPE, CHUNKED], body: toChunks(LONG, 100_000) },
  },
  {
    ...{ what: "a body in too many chunks", code: 40000 },
    ...{ headers: [JSON_TYPE, CHUNKED], body: toChunks(LONG.slice(0, 2_000_000), 1) },
  },
  {
    ...{ what: "a body that is not JSON on a connection for one request", code: 41500 },
    ...{ headers: ["Connection: close"], body: LONG },
  },
  { what: "headers that are too long", code: 40000, headers: [`X-Long: ${LONG}`] },
];
for (const { what, code, ...sent } of UNREAD) {
  test(`a client that sends ${what} to the end can read the refusal`, async (t) => {
    const daemon = await startTestDaemon(t);
    const client = await openWriter(t, daemon);
    const headers = [bearer(daemon), ...sent.headers];

    await client.write(toBytes({ method: "POST", target: TASK_POST, ...sent, headers }));

    assert.match(await client.read(), new RegExp(`\\{"status_code":${code},`));
    assert.deepEqual(complaints(daemon), []);
  });
}

test("a client that keeps sending after a refusal is disconnected", async (t) => {
  const daemon = await startTestDaemon(t);
  const client = await openWriter(t, daemon);
  const headers = [bearer(daemon), JSON_TYPE, `Content-Length: ${Number.MAX_SAFE_INTEGER}`];
  await client.write(toBytes({ method: "POST", target: TASK_POST, headers }));
  const piece = Buffer.alloc(1024 ** 2, "x");

  // The server reads 64 MiB, and the kernel buffers some more.
  const writing = async () => {
    for (let i = 0; i < 256; i++) await client.write(piece);
  };

  await assert.rejects(writing, { syscall: "write" });
});

/** The server's ends of connections; `refused` makes one whose client sends nothing more after the refusal. */
async function startRefusing(t: TestContext, toml: string) {
  const daemon = await startTestDaemon(t, { toml });
  const sockets: Socket[] = [];
  const note = (message: unknown): void =>
    void sockets.push((message as { socket: Socket }).socket);
  const accepted = channel("net.server.socket");
  accepted.subscribe(note);
  t.after(() => accepted.unsubscribe(note));
  const headers = [bearer(daemon), JSON_TYPE, `Content-Length: ${SENT}`];
  const request = toBytes({ method: "POST", target: TASK_POST, headers });
  return {
    ...{ daemon, sockets },
    async refused(): Promise<void> {
      const connection = await openRaw(t, daemon.url);
      connection.send(request);
      assert.equal(toAnswer(await connection.next()).code, 41300);
      await connection.closed();
    },
  };
}

test("a client that sends nothing more after a refusal is disconnected", async (t) => {
  const { sockets, refused } = await startRefusing(t, "");

  await refused();

  const [socket] = sockets;
  assert.equal(socket?.destroyed, false);
  await once(socket, "close");
});

test("refused clients occupy no places, and the oldest of 65 is disconnected", async (t) => {
  const { daemon, sockets, refused } = await startRefusing(t, "limits.connections = 1");

  for (let i = 0; i < 65; i++) await refused();

  assert.deepEqual(
    sockets.map(({ destroyed }) => destroyed),
    [true, ...Array.from({ length: 64 }, () => false)],
  );
  assert.deepEqual(complaints(daemon), []);
});

test("a body of small chunks without an end is refused before limits.request_timeout", async (t) => {
  const daemon = await startTestDaemon(t, { toml: '[limits]\nrequest_timeout = "10m"\n' });
  const connection = await openRaw(t, daemon.url);
  const headers = [bearer(daemon), JSON_TYPE, CHUNKED];

  connection.send(toBytes({ method: "POST", target: TASK_POST, headers }));
  connection.send("1\r\n \r\n".repeat(20_000));

  const { response, code } = toAnswer(await connection.next());
  assert.equal(code, 40000);
  assert.equal(headerOf(response, "connection"), "close");
});

test("a malformed chunk in a body without an end is refused before limits.request_timeout", async (t) => {
  const daemon = await startTestDaemon(t, { toml: '[limits]\nrequest_timeout = "10m"\n' });
  const headers = [bearer(daemon), JSON_TYPE, CHUNKED];
  for (const sent of ["zz\r\n", '3\r\n[{"\r\n-1\r\n', "3\r\n[{}x"]) {
    const connection = await openRaw(t, daemon.url);
    connection.send(toBytes({ method: "POST", target: TASK_POST, headers }));
    connection.send(sent);

    const { response, code } = toAnswer(await connection.next());
    assert.deepEqual([code, headerOf(response, "connection")], [40000, "close"]);
  }
});

test("a refusal that leaves the body readable keeps its connection usable", async (t) => {
  const daemon = await startLimited(t);
  const connection = await openRaw(t, daemon.url);
  const key = bearer(daemon);
  const post = { method: "POST", target: TASK_POST };
  const refused = [
    [40400, { ...post, target: "/v1/nothing", body: taskOf(LIMIT) }],
    [40500, { ...post, method: "PATCH", body: taskOf(LIMIT) }],
    [40100, { ...post, body: taskOf(LIMIT) }],
    [40100, { ...post, headers: [CHUNKED], body: toChunks(taskOf(LIMIT)) }],
    [41500, { ...post, headers: [key], body: taskOf(LIMIT) }],
    [41500, { ...post, headers: [key, CHUNKED], body: toChunks(taskOf(LIMIT)) }],
    [40503, { ...post, headers: [key, JSON_TYPE], body: "[" }],
    [40502, { ...post, headers: [key, JSON_TYPE, CHUNKED], body: toChunks("") }],
    [40006, { ...post, headers: [key, JSON_TYPE], body: `[${"1,".repeat(100)}1]` }],
  ] as const;
  for (const [code, request] of refused) {
    assert.equal((await askOn(connection, request)).code, code);
    assert.equal((await askOn(connection, posting(daemon, "{}"))).code, 20000);
  }
});

test("parameters of a media type are read, and only UTF-8 is taken", async (t) => {
  const daemon = await startTestDaemon(t);
  const codeWith = async (lines: readonly string[]): Promise<number | null> => {
    const headers = [bearer(daemon), ...lines];
    return (await ask(daemon.url, { method: "POST", target: TASK_POST, headers, body: "{}" })).code;
  };
  const taken = [
    ["application/json;charset=utf-8", "application/json;", "application/json; charset=UTF8"],
    ['application/json;charset="utf8"', "application/json; profile=x; version"],
    ["application/json; odata.metadata=minimal; charset=utf-8"],
    ['application/json; profile="a;charset=latin1\\";charset=x"; v=1'],
  ].flat();
  for (const type of taken) assert.equal(await codeWith([`Content-Type: ${type}`]), 20000, type);
  const refused = [
    ['application/json; profile="a"; charset=latin1', ";application/json"],
    ["application/json; charset", "application/json; charset=utf-80", "application/problem+json"],
    ["application/json; charset=utf-8; charset=utf-16"],
  ].flat();
  for (const type of refused) assert.equal(await codeWith([`Content-Type: ${type}`]), 41500, type);
  assert.equal(await codeWith([JSON_TYPE, "Content-Encoding: IDENTITY"]), 20000);
  const twice = [JSON_TYPE, "Content-Encoding: identity", "Content-Encoding: deflate"];
  assert.equal(await codeWith(twice), 41500);
});

test("a media type costs time in proportion to its length", async (t) => {
  const daemon = await startTestDaemon(t);
  const spaces = " ".repeat(15_000);
  const drawnOut = [`application/json${spaces}x`, `application/json${" ;".repeat(7500)}x`];
  const quoted = [
    `application/json;a="${'\\"'.repeat(7500)}`,
    `application/json${';a="'.repeat(3700)}`,
  ];
  const all = [...drawnOut, ...quoted, `application/json;${spaces}charset=utf-8${spaces}`];
  for (const mediaType of all) {
    const headers = [bearer(daemon), `Content-Type: ${mediaType.slice(0, 16_000)}`];
    const ms = await cpuMsOf(async () => {
      for (let round = 0; round < 10; round++) {
        const post = { method: "POST", target: TASK_POST, headers, body: "{}" };
        assert.notEqual((await ask(daemon.url, post)).code, null);
      }
    });
    // A regular expression that backtracks takes 170 ms each.
    assert.ok(ms < 1000, `${ms} ms`);
  }
});

test("an input has 64 levels at most, at any size, and brackets in strings do not count", async (t) => {
  const daemon = await startTestDaemon(t);
  const nested = (levels: number, open = "[", close = "]") =>
    `[{"input":${open.repeat(levels)}1${close.repeat(levels)}}]`;
  assert.equal(await codeOf(daemon, nested(64)), 20000);
  assert.equal(await codeOf(daemon, nested(64, '{"a":', "}")), 20000);
  assert.equal(await codeOf(daemon, `{"input":"${"[{".repeat(1000)}\\"${"[".repeat(99)}"}`), 20000);
  for (const body of [nested(65), nested(65, '{"a":', "}"), nested(100_000)]) {
    const got = await ask(daemon.url, posting(daemon, body));
    assert.equal(got.code, 40503);
    assert.match(got.body.errors?.[0]?.detail ?? "", /deeper than 66 levels/);
  }
  for (const body of ["[".repeat(1_000_000), '{"a":'.repeat(200_000), "[{".repeat(100_000)]) {
    assert.equal(await codeOf(daemon, body), 40503);
  }
});
