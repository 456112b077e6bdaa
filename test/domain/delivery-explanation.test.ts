import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { durationText } from "../../src/domain/clock/duration.ts";
import type { Task } from "../../src/domain/task/task.ts";
import { explainError } from "../../src/domain/webhook/attempt-error.ts";
import {
  COMMAND_LINE_READER,
  explainAttempt,
  explainDelivery,
  explainNoDelivery,
  type ExplanationReader,
} from "../../src/domain/webhook/delivery-explanation.ts";
import { pauseOf, type DeliveryPause } from "../../src/domain/webhook/delivery-pause.ts";
import type { Attempt, Delivery } from "../../src/domain/webhook/delivery.ts";
import { ATTEMPT_OUTCOMES, DELIVERY_STATES } from "../../src/domain/webhook/delivery.ts";

const T0 = Date.parse("2026-11-21T14:02:11.000Z");
const URL = "https://hooks.corp/in/secret-path?token=hidden";
const NONE = { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null };

const SCHEDULED: Attempt = {
  number: 1,
  dueAt: T0,
  startedAt: null,
  endedAt: null,
  outcome: null,
  httpStatus: null,
  error: null,
  address: null,
  phases: NONE,
  responseExcerpt: null,
  refusal: null,
  retryAfter: null,
};

/** An attempt that took 120 ms and ended at {@link T0}. */
function ended(facts: Partial<Attempt>): Attempt {
  return { ...SCHEDULED, dueAt: T0 - 130, startedAt: T0 - 120, endedAt: T0, ...facts };
}

const FULL = { dnsMs: 3.2, connectMs: 10, tlsMs: 25.5, firstByteMs: 80 };
const ANSWERED = { address: "203.0.114.7", phases: FULL };
const SPENT =
  "(after 120 ms: name resolution 3.2 ms, connecting 10 ms, TLS 25.5 ms, first byte 80 ms)";
const AT = "at 2026-11-21 14:02:11 UTC";

const REFUSED = {
  outcome: "refused",
  error: "The host hooks.corp resolves to 10.1.2.3, which is refused …",
  refusal: { host: "hooks.corp", addresses: ["10.1.2.3"], rule: "private-use (RFC 1918)" },
} as const;

const ATTEMPTS: readonly [facts: Attempt, sentence: string][] = [
  [
    ended({ ...ANSWERED, outcome: "delivered", httpStatus: 204 }),
    `delivered: hooks.corp (203.0.114.7:443) answered 204 ${AT} ${SPENT}`,
  ],
  [
    ended({
      outcome: "delivered",
      httpStatus: 200,
      address: "2001:db8::1",
      phases: { ...NONE, firstByteMs: 4 },
    }),
    `delivered: hooks.corp ([2001:db8::1]:443) answered 200 ${AT} (after 120 ms: first byte 4 ms, on a connection kept from before)`,
  ],
  [
    ended({ ...ANSWERED, outcome: "failed", httpStatus: 503, error: "status is not 2xx" }),
    `failed: hooks.corp (203.0.114.7:443) answered 503, where only 2xx counts as delivered, ${AT} ${SPENT}; the receiver's own log says why`,
  ],
  [
    ended({
      ...ANSWERED,
      outcome: "failed",
      httpStatus: 429,
      error: "status is not 2xx",
      retryAfter: "120",
    }),
    `failed: hooks.corp (203.0.114.7:443) answered 429 with Retry-After 120, which moves no retry, where only 2xx counts as delivered, ${AT} ${SPENT}; have the receiver take more at a time, or lower webhooks.max_in_flight_per_host`,
  ],
  [
    ended({ ...ANSWERED, outcome: "failed", httpStatus: 301, error: "redirects are not followed" }),
    `failed: hooks.corp (203.0.114.7:443) answered 301, and redirects are not followed, ${AT} ${SPENT}; post the URL that it leads to`,
  ],
  [
    ended({
      ...ANSWERED,
      outcome: "failed",
      httpStatus: 101,
      error: "receiver switched protocols",
    }),
    `failed: hooks.corp (203.0.114.7:443) answered 101 and switched protocols, where a webhook wants a 2xx, ${AT} ${SPENT}; have it answer in plain HTTP`,
  ],
  [
    ended({ outcome: "failed", error: "name not found", phases: { ...NONE, dnsMs: 118 } }),
    `failed: the name hooks.corp does not exist, ${AT} (after 120 ms: name resolution 118 ms); correct the name in the URL or its record in DNS`,
  ],
  [
    ended({ outcome: "failed", error: "some phrase of a later version", address: "203.0.114.7" }),
    `failed: hooks.corp (203.0.114.7:443): some phrase of a later version, ${AT} (after 120 ms)`,
  ],
  [
    ended({
      outcome: "timed_out",
      error: "timed out waiting for the answer",
      startedAt: T0 - 10_004,
      address: "203.0.114.7",
      phases: { ...NONE, dnsMs: 1900, connectMs: 12, tlsMs: 30 },
    }),
    `timed out: the time was up before hooks.corp (203.0.114.7:443) answered, ${AT} (after 10 s: name resolution 1.9 s, connecting 12 ms, TLS 30 ms); have it answer first and work afterwards, or raise webhooks.timeout`,
  ],
  [
    ended(REFUSED),
    `refused: hooks.corp resolved to 10.1.2.3 ${AT}, private-use (RFC 1918); allow it with webhooks.allow = ["10.1.2.3"]`,
  ],
  [
    ended({
      ...REFUSED,
      refusal: { ...REFUSED.refusal, addresses: ["8.8.8.8", "10.1.2.3", "::1", "8.8.4.4"] },
    }),
    `refused: hooks.corp resolved to 10.1.2.3, ::1 among 4 addresses, where one refused refuses all, ${AT}, private-use (RFC 1918); allow it with webhooks.allow = ["10.1.2.3", "::1"]`,
  ],
  [
    ended({
      ...REFUSED,
      refusal: { host: "hooks.corp", addresses: ["8.8.8.8"], rule: "address of this machine" },
    }),
    `refused: hooks.corp resolved to 8.8.8.8 ${AT}, address of this machine; allow it with webhooks.allow = ["8.8.8.8"]`,
  ],
  [
    ended({
      outcome: "refused",
      error: "the URL is refused",
      refusal: { host: "hooks.corp", addresses: [], rule: "local name (.corp, RFC 6762)" },
    }),
    `refused: the URL's host hooks.corp was judged ${AT}, local name (.corp, RFC 6762); allow it with webhooks.allow = ["hooks.corp"]`,
  ],
  [
    ended({
      ...REFUSED,
      refusal: {
        host: "hooks.corp",
        addresses: ["fe80::1%eth0"],
        rule: "scoped by a zone (RFC 4007)",
      },
    }),
    `refused: hooks.corp resolved to fe80::1%eth0 ${AT}, scoped by a zone (RFC 4007); no setting allows that, so the URL or the name service has to be mended`,
  ],
  [
    ended({ outcome: "interrupted", error: "the daemon stopped during the attempt" }),
    `interrupted: the daemon ended during the attempt, which hooks.corp may have got or not, ${AT}; it is sent again immediately, and no retry is used up`,
  ],
  [
    { ...SCHEDULED, number: 3, dueAt: T0 + 300_000 },
    "scheduled: attempt 3 is due at 2026-11-21 14:07:11 UTC, in 5 min",
  ],
  [
    SCHEDULED,
    "scheduled: attempt 1 is due since 2026-11-21 14:02:11 UTC and goes out as soon as the daemon runs and other attempts leave room",
  ],
  [
    { ...SCHEDULED, startedAt: T0 - 2500 },
    "in flight to hooks.corp since 2026-11-21 14:02:08 UTC, for 2.5 s",
  ],
  [
    { ...SCHEDULED, startedAt: T0 - 60_000 },
    "in flight to hooks.corp since 2026-11-21 14:01:11 UTC, for 1 min; if the daemon ended meanwhile, it is sent again as soon as the daemon runs",
  ],
];

for (const [facts, sentence] of ATTEMPTS) {
  test(`tells: ${sentence.slice(0, 90)}`, () => {
    assert.equal(
      explainAttempt(facts, { url: URL, now: T0, reader: COMMAND_LINE_READER }),
      sentence,
    );
  });
}

const FAILED = ended({
  ...ANSWERED,
  outcome: "failed",
  httpStatus: 500,
  error: "status is not 2xx",
});

function told(state: Delivery["state"], ...attempts: readonly Attempt[]): string {
  const delivery: Delivery = { kind: "postback", url: URL, state, attempts };
  return explainDelivery(delivery, { now: T0, reader: COMMAND_LINE_READER, pause: null });
}

test("says of what was given up after how many attempts, and how the last one went", () => {
  const sentence = told("given_up", FAILED, { ...FAILED, number: 4 });
  assert.match(
    sentence,
    /^given up after 4 attempts, with no retry left; the last one failed: hooks\.corp .* answered 500,/,
  );
});

test("says of what waits for a retry when it is due, and why the attempt before did not do", () => {
  const sentence = told("scheduled", FAILED, { ...SCHEDULED, number: 2, dueAt: T0 + 60_000 });
  assert.match(
    sentence,
    /^scheduled: attempt 2 is due at 2026-11-21 14:03:11 UTC, in 1 min; attempt 1 failed: /,
  );
});

const ACCOUNT: ExplanationReader = { ...COMMAND_LINE_READER, role: "account" };

// What takes the daemon's configuration or its machine.
const OPERATORS = /webhooks\.|ulimit|daemon's machine|this machine|report it/;

test("advises an account to ask the operator for whatever takes the daemon's configuration or machine", () => {
  const advice = ATTEMPTS.map(([facts]) => {
    return explainAttempt(facts, { url: URL, now: T0, reader: ACCOUNT }).split("; ").at(-1) ?? "";
  });
  const operators = advice.filter((text) => OPERATORS.test(text));
  assert.ok(operators.length >= 6, `${operators.length} were found`);
  for (const text of operators) assert.match(text, /ask the operator to /, text);
  const refused = explainAttempt(ended(REFUSED), { url: URL, now: T0, reader: ACCOUNT });
  assert.match(refused, /; ask the operator to allow it with webhooks\.allow = \["10\.1\.2\.3"\]$/);
});

test("writes every time as its reader has it", () => {
  const reader = { ...ACCOUNT, writeTime: () => "TIME" };
  for (const [facts] of ATTEMPTS) {
    const sentence = explainAttempt(facts, { url: URL, now: T0, reader });
    assert.match(sentence, /(at|since) TIME/);
    assert.doesNotMatch(sentence, /UTC|2026/);
  }
});

test("keeps quiet about an earlier series where a new one has begun", () => {
  const sentence = told("scheduled", { ...FAILED, number: 4 }, { ...SCHEDULED, dueAt: T0 + 1000 });
  assert.equal(sentence, "scheduled: attempt 1 is due at 2026-11-21 14:02:12 UTC, in 1 s");
});

test("says that what was refused is not tried again", () => {
  assert.match(told("refused", ended(REFUSED)), /^refused: hooks\.corp resolved .*by itself$/);
});

test("tells every state and outcome without the URL's path and query, on one line", () => {
  for (const state of DELIVERY_STATES) {
    for (const outcome of [...ATTEMPT_OUTCOMES, null]) {
      for (const attempts of [[], [ended({ outcome })], [FAILED, ended({ outcome, number: 2 })]]) {
        const sentence = told(state, ...attempts);
        assert.doesNotMatch(sentence, /secret-path|hidden|undefined|null|\n|\.$/);
      }
    }
  }
});

/** The texts with a space between their words that a source file holds. */
function phrasesIn(path: string): readonly string[] {
  const source = readFileSync(new globalThis.URL(`../../src/${path}`, import.meta.url), "utf8");
  const code = source.replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, "");
  const literals = [...code.matchAll(/"((?:[^"\\\n]|\\.)*)"/g)].map(([, text]) => text ?? "");
  return literals.filter((text) => /\w \w/.test(text));
}

const ERROR_SOURCES = [
  ...["attempt", "connections", "exchange", "failure", "resolver", "send"],
  "delivery-dispatcher",
].map((name) => `deliver/${name}.ts`);

// Words to the log and to the store, which no attempt ends with.
const NO_ERRORS = [
  "earlier life",
  "attempt failed",
  "an attempt began",
  "an attempt ended",
  "an attempt could not be made",
  "a response could not be stored",
  "the machine's clock was set; scheduled work moves with it",
  "attempts that were scheduled later than any retry can be are sent sooner",
];

test("has a sentence for every error that a sender can end an attempt with", () => {
  const phrases = new Set(
    ERROR_SOURCES.flatMap(phrasesIn).filter((text) => !NO_ERRORS.includes(text)),
  );

  assert.ok(phrases.size >= 40, `${phrases.size} phrases were found`);
  const peer = { host: "h.example", dialled: "8.8.8.8:443" };
  for (const phrase of phrases) {
    for (const role of ["operator", "account"] as const) {
      const explained = explainError(phrase, { peer, role });
      assert.ok(explained !== null, `nothing explains "${phrase}"`);
      assert.doesNotMatch(`${explained.clause} ${explained.hint}`, /HOST|PEER|\.$/);
    }
  }
});

const TASK: Task = {
  id: "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6",
  state: "completed",
  statusCode: 20000,
  statusMessage: null,
  type: "echo",
  createdAt: T0,
  startedAt: T0,
  completedAt: T0,
  expiresAt: null,
  runs: 1,
  dataText: "{}",
  inputText: null,
  resultText: null,
  errorText: null,
};

test("says of a task without deliveries why it has none", () => {
  const dataText = '{"postback_url":"https://hooks.corp/"}';
  const cases: readonly [task: Partial<Task>, kind: "postback" | "pingback" | null, RegExp][] = [
    [{}, null, /^nothing is sent: the task was posted without postback_url and pingback_url$/],
    [{ dataText }, "pingback", /^nothing is sent: the task was posted without pingback_url$/],
    [{ state: "cancelled", statusCode: 40901 }, null, /cancelled at 2026-11-21 14:02:11 UTC$/],
    [{ state: "failed", statusCode: 40501 }, null, /^nothing is sent: task_post refused the task/],
    [
      { state: "failed", statusCode: 40501, statusMessage: "Invalid Field: 'tag'. Too long." },
      null,
      /, so it never ran: Invalid Field: 'tag'\. Too long$/,
    ],
    [
      { state: "queued", statusCode: 40602, completedAt: null, dataText },
      null,
      /^not sent yet: the task, posted at 2026-11-21 14:02:11 UTC, is queued, and webhooks go out once /,
    ],
    [{ state: "running", statusCode: 40601, dataText }, "postback", /^not sent yet: .* is running/],
  ];
  for (const [task, kind, sentence] of cases) {
    assert.match(
      explainNoDelivery({ ...TASK, ...task }, { kind, reader: COMMAND_LINE_READER }),
      sentence,
    );
  }
});

test("writes lengths of time in their two largest units", () => {
  const cases = [
    [-1, "0 ms"],
    [0.24, "0.2 ms"],
    [999, "999 ms"],
    [9990, "9.9 s"],
    [59_999, "59.9 s"],
    [60_000, "1 min"],
    [243_000, "4 min 3 s"],
    [7_500_000, "2 h 5 min"],
    [86_400_000 * 3 + 1, "3 d"],
  ] as const;
  for (const [ms, text] of cases) assert.equal(durationText(ms), text);
});

test("has advice for every error that its reader can follow", () => {
  const peer = { host: "h.example", dialled: "8.8.8.8:443" };
  for (const phrase of new Set(ERROR_SOURCES.flatMap(phrasesIn))) {
    const hint = explainError(phrase, { peer, role: "account" })?.hint ?? "";
    if (OPERATORS.test(hint)) assert.match(hint, /ask the operator to /, phrase);
    const own = explainError(phrase, { peer, role: "operator" })?.hint ?? "";
    assert.doesNotMatch(own, /the operator/, phrase);
  }
});

const HOLD: DeliveryPause = {
  ...{ accountId: null, login: null, host: "hooks.corp", since: T0 - 60_000 },
  ...{ reason: "maintenance", pausedBy: "root" },
};

test("says of what is paused since when and what else is, and to the operator why", () => {
  const scheduled: Delivery = {
    kind: "postback",
    url: URL,
    state: "scheduled",
    attempts: [SCHEDULED],
  };
  const asked = { now: T0, pause: HOLD };

  const operators = explainDelivery(scheduled, { ...asked, reader: COMMAND_LINE_READER });
  const accounts = explainDelivery(scheduled, { ...asked, reader: ACCOUNT });

  assert.match(
    operators,
    /^paused: attempt \d, due at .* UTC, waits because the operator has paused webhooks to hooks\.corp since .* \(maintenance\); resume them$/,
  );
  assert.match(accounts, /since [^()]*; ask the operator to resume them$/);
});

test("a pause changes nothing about deliveries that have ended or are in flight", () => {
  const url = { kind: "postback", url: URL } as const;
  const delivered: Delivery = { ...url, state: "given_up", attempts: [FAILED] };
  const circumstances = { now: T0, reader: COMMAND_LINE_READER };

  assert.equal(
    explainDelivery(delivered, { ...circumstances, pause: HOLD }),
    explainDelivery(delivered, { ...circumstances, pause: null }),
  );
});

test("a webhook is paused by the pause that covers its account and its host", () => {
  const ofAda: DeliveryPause = { ...HOLD, accountId: 1, login: "ada", host: null };
  const ofLane: DeliveryPause = { ...HOLD, accountId: 2, login: "bob", host: "::1" };
  const holds = [HOLD, ofAda, ofLane];

  assert.equal(pauseOf(holds, { login: "bob", host: "hooks.corp" }), HOLD);
  assert.equal(pauseOf(holds, { login: "ada", host: "b.corp" }), ofAda);
  assert.equal(pauseOf(holds, { login: "bob", host: "[::1]" }), ofLane);
  assert.equal(pauseOf(holds, { login: "bob", host: "b.corp" }), null);
  assert.equal(pauseOf([], { login: "bob", host: "b.corp" }), null);
});
