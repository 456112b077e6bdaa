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
  type TaskAccount,
} from "../../src/domain/webhook/delivery-explanation.ts";
import { pauseOf, type DeliveryPause } from "../../src/domain/webhook/delivery-pause.ts";
import type { Attempt, Delivery, DeliveryKind } from "../../src/domain/webhook/delivery.ts";
import { ATTEMPT_OUTCOMES, DELIVERY_STATES } from "../../src/domain/webhook/delivery.ts";
import { ATTEMPTS, ended, FAILED, HOOK, PRIVATE, SCHEDULED, SENDING, T0 } from "./attempt-cases.ts";

function explained(state: Delivery["state"], ...attempts: readonly Attempt[]): string {
  const delivery: Delivery = { kind: "postback", url: HOOK, state, attempts };
  return explainDelivery(delivery, SENDING);
}

test("a delivery's explanation has its state, and the outcome of the attempt that decided it", () => {
  const later = { ...SCHEDULED, number: 2, dueAt: T0 + 60_000 };

  const cases = [
    [explained("given_up", FAILED, { ...FAILED, number: 4 }), /^given up after 4 .* 500,/],
    [
      explained("scheduled", FAILED, later),
      /^scheduled: attempt 2 .* in 1 min; attempt 1 failed: /,
    ],
    [explained("refused", PRIVATE), /^refused: hooks\.corp .*is not retried$/],
  ] as const;
  for (const [sentence, pattern] of cases) assert.match(sentence, pattern);
});

test("a new series is explained without the attempts of the earlier series", () => {
  const again = explained("scheduled", { ...FAILED, number: 4 }, SCHEDULED);

  assert.equal(again, explained("scheduled", SCHEDULED));
});

const ACCOUNT: ExplanationReader = { ...COMMAND_LINE_READER, role: "account" };

// Advice that needs the daemon's configuration or its machine.
const OPERATORS = /webhooks\.|ulimit|daemon's machine|this machine|report it/;

test("an account is advised to ask the operator if the advice needs the configuration or the machine", () => {
  const advice = Object.values(ATTEMPTS).map((attempt) => {
    return (
      explainAttempt(attempt, { ...SENDING, url: HOOK, reader: ACCOUNT })
        .split("; ")
        .at(-1) ?? ""
    );
  });
  const operators = advice.filter((text) => OPERATORS.test(text));
  assert.ok(operators.length >= 6, `${operators.length} were found`);
  for (const text of operators) assert.match(text, /ask the operator to /, text);
});

test("an explanation writes every time in the reader's form", () => {
  const reader = { ...ACCOUNT, writeTime: () => "TIME" };
  for (const attempt of Object.values(ATTEMPTS)) {
    const sentence = explainAttempt(attempt, { ...SENDING, url: HOOK, reader });
    assert.match(sentence, /(at|since) TIME/);
    assert.doesNotMatch(sentence, /UTC|2026/);
  }
});

test("an explanation is one line without the URL's path and query, for every state and outcome", () => {
  for (const state of DELIVERY_STATES) {
    for (const outcome of [...ATTEMPT_OUTCOMES, null]) {
      for (const attempts of [[], [ended({ outcome })], [FAILED, ended({ outcome, number: 2 })]]) {
        const sentence = explained(state, ...attempts);
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

// Phrases of the log and the store: no attempt ends with them.
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

test("every error of a sender has a clause and advice for its reader", () => {
  const phrases = new Set(
    ERROR_SOURCES.flatMap(phrasesIn).filter((text) => !NO_ERRORS.includes(text)),
  );

  assert.ok(phrases.size >= 40, `${phrases.size} phrases were found`);
  const peer = { host: "h.example", dialled: "8.8.8.8:443" };
  for (const phrase of phrases) {
    for (const role of ["operator", "account"] as const) {
      const explanation = explainError(phrase, { peer, role });
      assert.ok(explanation !== null, `nothing explains "${phrase}"`);
      const { clause, hint } = explanation;
      assert.doesNotMatch(`${clause} ${hint}`, /HOST|PEER|\.$/);
      if (role === "operator") assert.doesNotMatch(hint ?? "", /the operator/, phrase);
      else if (OPERATORS.test(hint ?? "")) assert.match(hint ?? "", /ask the operator to /, phrase);
    }
  }
});

const TASK: Task = {
  ...{ id: "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6", state: "completed", statusCode: 20000 },
  ...{ statusMessage: null, type: "echo", createdAt: T0, startedAt: T0, completedAt: T0 },
  ...{ expiresAt: null, runs: 1, dataText: "{}", inputText: null, resultText: null },
  errorText: null,
};

test("a task without a delivery is explained by its URLs, its state or its refusal", () => {
  const dataText = '{"postback_url":"https://hooks.corp/"}';
  const message = { statusMessage: "Invalid Field: 'tag'. Too long." };
  const open = { state: "queued", statusCode: 40602, completedAt: null, dataText } as const;
  const refused = { state: "failed", statusCode: 40501 } as const;
  const cases: readonly [task: Partial<Task>, kind: DeliveryKind | null, RegExp, TaskAccount?][] = [
    [{}, null, /without postback_url and pingback_url$/],
    [{ dataText }, "pingback", /without pingback_url$/],
    [{ state: "cancelled", statusCode: 40901 }, null, /cancelled at 2026-11-21 14:02:11 UTC$/],
    [refused, null, /task_post refused/],
    [{ ...refused, ...message }, null, /: Invalid Field: 'tag'\. Too long$/],
    [open, null, /^not sent yet: .* is queued/],
    [{ ...open, state: "running", statusCode: 40601 }, "postback", /^not sent yet: .* is running/],
    [open, null, /^not sent yet: .*; the account ada is disabled since .* enable ada'$/, DISABLED],
    [{ ...open, dataText: "{}" }, null, /^nothing is sent: .* enable ada'$/, DISABLED],
    [{}, null, /without postback_url and pingback_url$/, DISABLED],
    [{ state: "cancelled", statusCode: 40901 }, null, /UTC$/, DISABLED],
  ];
  for (const [task, kind, sentence, account = SENDING.account] of cases) {
    const explanation = { kind, reader: COMMAND_LINE_READER, account };
    assert.match(explainNoDelivery({ ...TASK, ...task }, explanation), sentence);
  }
});

test("a duration is written in its two largest units", () => {
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

const DISABLED: TaskAccount = { login: "ada", disabledAt: T0 - 120_000 };

const PAUSE: DeliveryPause = {
  ...{ accountId: null, login: null, host: "hooks.corp", since: T0 - 60_000 },
  ...{ reason: "maintenance", pausedBy: "root" },
};

test("a pause is explained with its start, and its reason is for the operator alone", () => {
  const url = { kind: "postback", url: HOOK } as const;
  const scheduled: Delivery = { ...url, state: "scheduled", attempts: [SCHEDULED] };

  const ofReader = (reader: ExplanationReader): string =>
    explainDelivery(scheduled, { ...SENDING, pause: PAUSE, reader });

  assert.match(ofReader(COMMAND_LINE_READER), /^paused: .* since .* \(maintenance\); resume/);
  assert.match(ofReader(ACCOUNT), /since [^()]*; ask the operator to resume/);
});

test("a disabled account is named before a pause, in the delivery and in its attempt", () => {
  const due = { ...SCHEDULED, number: 2 };
  const attempts = [FAILED, due];
  const scheduled: Delivery = { kind: "postback", url: HOOK, state: "scheduled", attempts };
  const enable = /; enable it with 'postbackd admin account enable ada'/;
  for (const pause of [PAUSE, null]) {
    const circumstances = { ...SENDING, account: DISABLED, pause };
    const sentence = explainDelivery(scheduled, circumstances);
    const ofAttempt = explainAttempt(due, { ...circumstances, url: HOOK });

    assert.match(
      sentence,
      /^suspended: attempt 2, due at .* ada is disabled since .* 14:00:11 UTC/,
    );
    assert.match(sentence, enable);
    assert.doesNotMatch(sentence, /paused|slot/);
    assert.ok(sentence.startsWith(`${ofAttempt}; attempt 1 failed: `));
  }
  const paused = { ...SENDING, pause: PAUSE };
  const ofAttempt = explainAttempt(due, { ...paused, url: HOOK });
  assert.ok(explainDelivery(scheduled, paused).startsWith(`${ofAttempt}; attempt 1 failed: `));
});

test("neither a pause nor a disabled account changes the explanation of a delivery that has ended or is in flight", () => {
  for (const state of DELIVERY_STATES.filter((each) => each !== "scheduled")) {
    const delivery: Delivery = { kind: "postback", url: HOOK, state, attempts: [FAILED] };
    const sent = explainDelivery(delivery, SENDING);
    assert.equal(explainDelivery(delivery, { ...SENDING, pause: PAUSE }), sent, state);
    assert.equal(explainDelivery(delivery, { ...SENDING, account: DISABLED }), sent, state);
  }
});

test("a webhook is paused by the pause that covers its account and its host", () => {
  const ofAda: DeliveryPause = { ...PAUSE, accountId: 1, login: "ada", host: null };
  const ofLane: DeliveryPause = { ...PAUSE, accountId: 2, login: "bob", host: "::1" };
  const pauses = [PAUSE, ofAda, ofLane];

  assert.equal(pauseOf(pauses, { login: "bob", host: "hooks.corp" }), PAUSE);
  assert.equal(pauseOf(pauses, { login: "ada", host: "b.corp" }), ofAda);
  assert.equal(pauseOf(pauses, { login: "bob", host: "[::1]" }), ofLane);
  assert.equal(pauseOf(pauses, { login: "bob", host: "b.corp" }), null);
  assert.equal(pauseOf([], { login: "bob", host: "b.corp" }), null);
});
