import assert from "node:assert/strict";
import { channel } from "node:diagnostics_channel";
import { once } from "node:events";
import { type Socket, connect } from "node:net";
import { type TestContext, test } from "node:test";

import { cpuMsOf } from "../helpers/cpu-time.ts";
import { type TestDaemon, startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { headerOf, openRaw, toBytes, toChunks } from "../helpers/raw-http.ts";
import { NOW } from "./account.ts";
import {
  type Answer,
  JSON_TYPE,
  TASK_POST,
  ask,
  bearer,
  complaints,
  posting,
  toAnswer,
} from "./answer.ts";
import { WORKER_OPERATIONS, askAsWorker, createTestWorker } from "./worker-requests.ts";

const LIMIT = 4096;
const CHUNKED = "Transfer-Encoding: chunked";

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

/** Bodies over 64 KiB, which the parser thread parses. */

const SHORT_BYTES_MAX = 64 * 1024;
const LEASE = `"id":"01890a5d-ac96-774b-bcce-b302099a8057","lease_id":"x"`;
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}/g;

/** A response without its new ids. */
function told({ response }: Answer): unknown {
  // The place of an early end differs.
  const text = response.body.toString().replace(/ \(line \d+, column \d+\)/u, "");
  return [response.status, text.replaceAll(UUID, "ID")];
}

/** The same JSON with more than 64 KiB. */
function drawnOut(body: string): string {
  return body + " ".repeat(SHORT_BYTES_MAX);
}

test("a long body and an equal short body get the same response", async (t) => {
  const toml = `[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n[limits]\ntasks_per_post = 2\n`;
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { toml, clock });
  const token = await createTestWorker(daemon.file, ["print"]);
  const called = { url: daemon.url, token };
  const start = `"start_at":"2031-01-01T00:00:00Z"`;
  const tasks = [
    `{"type":"echo",${start},"input":{"n":1.0,"\\n":[12345678901234567890,-0]}}`,
    `[{"type":"echo",${start},"tag":"t"},{"type":"echo","x":1.0}]`,
    `{"type":"echo","postback_url":"http://127.0.0.1/","pingback_url":"https://example.com/$id"}`,
    ...["[]", "[1,{}]", "[{},{},{}]", "1.0", "{", "[".repeat(67), '{"type":"echo"}}'],
  ];
  for (const body of tasks) {
    const short = await ask(daemon.url, posting(daemon, body));
    const long = await ask(daemon.url, posting(daemon, drawnOut(body)));
    assert.deepEqual(told(long), told(short), body);
  }
  const lists = [
    `{"tasks":[{${LEASE},"result":{"a":1.0}},{${LEASE},"message":"No."},null,{"id":1}]}`,
    `{"leases":[{${LEASE},"progress":{"progress":0.5}},{${LEASE},"x":1}],"progress":null}`,
    ...[`{"tasks":[],"leases":[]}`, `{"tasks":1,"a/b":2}`, "[]", "nonsense", "[".repeat(1001)],
  ];
  for (const operation of WORKER_OPERATIONS.filter((each) => each !== "claim")) {
    for (const body of lists) {
      const short = await askAsWorker(called, operation, body);
      const long = await askAsWorker(called, operation, drawnOut(body));
      assert.deepEqual(told(long), told(short), `${operation} ${body}`);
    }
  }
});

test("a long body with an Idempotency-Key is replayed, and another body is 42200", async (t) => {
  const daemon = await startTestDaemon(t);
  const headers = [bearer(daemon), JSON_TYPE, "Idempotency-Key: k"];
  const post = (body: string) =>
    ask(daemon.url, { method: "POST", target: TASK_POST, headers, body: drawnOut(body) });
  const first = await post(`{"input":1.0}`);
  const again = await post(`{"input":1.0}`);
  assert.equal(again.response.body.toString(), first.response.body.toString());
  assert.equal((await post(`{"input":1}`)).code, 42200);
  assert.equal((await post(`[]`)).code, 42200);
  assert.equal((await post(`[`)).code, 40503);
});

test("a body over 64 KiB is parsed by another thread, a body of 64 KiB is not", async (t) => {
  const daemon = await startTestDaemon(t);
  const parse = t.mock.method(JSON, "parse");
  const isParsedHere = async (bytes: number): Promise<boolean> => {
    const input = JSON.stringify("x".repeat(bytes - 12));
    const body = `{"input":${input}}`;
    assert.equal(body.length, bytes);
    parse.mock.resetCalls();
    assert.equal((await ask(daemon.url, posting(daemon, body))).code, 20000);
    return parse.mock.calls.some((call) => call.arguments[0] === input);
  };
  assert.equal(await isParsedHere(SHORT_BYTES_MAX), true);
  assert.equal(await isParsedHere(SHORT_BYTES_MAX + 1), false);
});
