import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import fc from "fast-check";

import { startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { startReceiver, type ReceivedRequest } from "../helpers/receiver.ts";
import { requestTo, startSender } from "./sender-setup.ts";

const NAMES = ["hooks.example.com", "xn--bcher-kva.example", "-a_b-.example"];
const HOSTS_LINE = `127.0.0.1 ${NAMES.join(" ")}`;
// Spellings of the names and of 127.0.0.1.
const HOSTS = [
  ...["hooks.example.com", "HOOKS.Example.COM", "hooks。example．com", "%68ooks.example.com"],
  ...["bücher.example", "BÜCHER.example", "b%C3%BCcher.example", "xn--bcher-kva.example"],
  ...["-a_b-.example", "hooks.exa\u00admple.com"],
  ...["127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:127.0.0.1]"],
];
const PIECES = [
  ...["/", "//", "/./", "/../", "/..", "/.", "/%2e%2E/", "/.%2e", "\\", "/a;b=c,d:e@f!$&()*+=~"],
  ...["?", "??", "?a=1&b", "&", "=", "#", "#f", "#?", "%", "%zz", "%00", "%0d%0a", "%25", "%C3%BC"],
  ...['"', "'", "`", "<", ">", "{", "}", "|", "^", "[", "]", "~", "!", "*", "(", ")", "@", ":"],
  ...[" ", "+", "%20", "$", "%24id", "é", "日本", "€", "😀"],
  ...["\u00a0", "\ufeff", "\u202e", "\ufffe"],
  ...["e\u0301", "http://", "h.example", "\u2028", "\u0300", "\ue000", "\u{10ffff}"],
];

/** Hostile text after a host, that the judge of URLs accepts. */
function tail(): fc.Arbitrary<string> {
  const piece = fc.oneof(
    { arbitrary: fc.constantFrom(...PIECES), weight: 4 },
    { arbitrary: fc.string({ unit: "grapheme", maxLength: 4 }), weight: 1 },
    { arbitrary: fc.string({ maxLength: 6 }), weight: 1 },
  );
  return fc
    .tuple(fc.constantFrom("", "/", "/", "?", "#", "\\"), fc.array(piece, { maxLength: 8 }))
    .map(([head, pieces]) => (head === "" ? "" : head + pieces.join("")))
    .filter((text) => text.trim() === text);
}

test("each of 3,000 unusual URLs arrives as it was signed, character for character", async (t) => {
  const receiver = await startReceiver(t);
  const sender = startSender(t, { hosts: [HOSTS_LINE] });
  const url = fc
    .tuple(fc.constantFrom(...HOSTS), fc.constantFrom("", "0", "00"), tail())
    .map(([host, zeros, rest]) => `http://${host}:${zeros}${receiver.port}${rest}`);

  await fc.assert(
    fc.asyncProperty(fc.array(url, { minLength: 100, maxLength: 100 }), async (urls) => {
      const before = receiver.requests.length;
      const requests = urls.map((each, index) =>
        requestTo(each, { method: "GET", body: null, headers: { "X-Number": String(index) } }),
      );
      const results = await Promise.all(requests.map((request) => sender.send(request)));
      for (const { outcome, error } of results) assert.equal(outcome, "delivered", error ?? "");
      const arrived = receiver.requests.slice(before);
      assert.equal(arrived.length, urls.length);
      for (const request of arrived) {
        const target = requests[Number(request.headers["x-number"])]?.target;
        assert.equal(urlOf(request), target?.url);
        assert.equal(request.url, target?.requestTarget);
      }
    }),
    { numRuns: 30 },
  );
});

test("Host and request line of 300 unusual pingbacks form the URL that the daemon signed", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t);
  const base = `http://127.0.0.1:${receiver.port}`;
  const placeholder = fc.constantFrom("", "/$id", "?$tag", "/$tag/$id?t=$tag#$id", "$id$tag");
  const task = fc.record({
    pingback_url: fc.tuple(tail(), placeholder).map(([text, more]) => `${base}/x${text}${more}`),
    tag: fc.option(
      fc.oneof(fc.constantFrom(...PIECES, "..", "."), fc.string({ unit: "grapheme" })),
    ),
  });
  const tasks = fc.sample(task, 300);

  const ids: string[] = [];
  for (let from = 0; from < tasks.length; from += 100) {
    const answer = await daemon.post(tasks.slice(from, from + 100));
    for (const each of answer.tasks) {
      assert.equal(each.status_code, 20100, JSON.stringify([each.status_message, each.data]));
      ids.push(each.id);
    }
  }
  await daemon.daemon.idle();

  assert.equal(receiver.requests.length, tasks.length);
  for (const request of receiver.requests) assertSigned(request, daemon);
  const seen = receiver.requests.map((request) => taskOf(request));
  assert.deepEqual(seen.toSorted(), ids.toSorted());
});

/** The URL that a receiver of a pingback verifies. */
function urlOf({ headers, url }: ReceivedRequest): string {
  return `http://${headers["host"]}${url}`;
}

function assertSigned(request: ReceivedRequest, { account }: TestDaemon): void {
  const message = Buffer.from(urlOf(request), "latin1");
  const signature = createHmac("sha256", account.secret).update(message).digest("hex");
  assert.equal(request.headers["x-signature"], `sha256=${signature}`, urlOf(request));
}

function taskOf({ headers }: ReceivedRequest): string {
  return (headers["webhook-id"] ?? "").replace(/-pingback$/, "");
}
