import type { TaskTypes } from "../domain/task/function.ts";
import type { Faults, TestDaemon } from "./daemon.ts";
import type { Message } from "./inbox.ts";

/** A receiver that has just been started: nothing has come to it yet. */
export interface StartedReceiver {
  /** For `postback_url`; this program must reach it too. */
  readonly url: string;
  /**
   * All effects of webhooks, as JSON data, maps and sets: a task must change it once, for any number and order of its
   * webhooks. A map and a set are the same in any order.
   */
  effects(): unknown;
  /** Ends it. */
  stop?(): unknown;
}

export interface ReceiverCheck {
  /** Starts the receiver with nothing remembered; it is called once for each trouble. */
  start(webhookSecret: string): StartedReceiver | Promise<StartedReceiver>;
  /** The task with this number, from 1: another for each, of what your receiver understands. */
  task(number: number): NewTask;
}

type NewTask = Parameters<TestDaemon["client"]["tasks"]["post"]>[0];

const TASKS = 10;

const UNVERIFIED = "takes what the secret has not signed";
const PARSES_FIRST = "parses a body before it has verified it";
const NOT_RAW = "verifies something else than the bytes of the body";
const REFUSES = "refuses genuine webhooks";
const ANSWERS_FIRST = "answers before it has stored";
const DUPLICATES = "takes duplicates for new tasks";
const REFUSES_AGAIN = "refuses what it has taken before";
const ORDER = "assumes that webhooks come in order";

/** The fault that is played, and what it shows where the effects differ, or a webhook is not delivered in the end. */
const TROUBLES: readonly {
  readonly faults: Faults;
  readonly differs: string;
  readonly undelivered?: string;
}[] = [
  { faults: { duplicate: 1 }, differs: DUPLICATES },
  { faults: { crash_during_attempt: 1 }, differs: DUPLICATES, undelivered: REFUSES_AGAIN },
  { faults: { reorder: 0.5 }, differs: ORDER, undelivered: ORDER },
  // None of them is ever known to have been delivered.
  { faults: { drop_answer: 1 }, differs: DUPLICATES },
];

/**
 * Drives a receiver through everything that happens to webhooks, and returns its faults as sentences; empty without a
 * fault. The receiver is started again for each trouble. Its effects must equal its effects without trouble.
 *
 * The daemon's clock becomes a manual one, and moves; tests that share the daemon must not run meanwhile.
 */
export async function checkReceiver<Types extends TaskTypes<Types>>(
  typed: TestDaemon<Types>,
  check: ReceiverCheck,
): Promise<readonly string[]> {
  // The types of its tasks are the check's concern.
  const daemon = typed as unknown as TestDaemon;
  const run: Run = { daemon, check, broken: new Set() };
  await daemon.clock.set("manual");
  const expected = await withReceiver(run, (receiver) => takeInOrder(run, receiver));
  // Without it there is nothing to compare with.
  if (expected === null) return [...run.broken];
  for (const trouble of TROUBLES) {
    await withReceiver(run, async (receiver) => {
      await daemon.faults(trouble.faults);
      // Webhooks that are sent concurrently may arrive in any order, which is another trouble.
      const postAll = trouble.differs === ORDER ? postAtOnce : postInOrder;
      const ids = await postAll(run, receiver);
      await daemon.advance({ until: "idle" });
      if ((await effectsOf(receiver)) !== expected) run.broken.add(trouble.differs);
      if (trouble.undelivered === undefined) return;
      const delivered = await Promise.all(ids.map((id) => isDelivered(daemon, id)));
      if (delivered.includes(false)) run.broken.add(trouble.undelivered);
    });
  }
  await withReceiver(run, async (receiver) => {
    await takeInPairs(run, receiver);
    if ((await effectsOf(receiver)) !== expected) run.broken.add(ORDER);
  });
  return [...run.broken];
}

interface Run {
  readonly daemon: TestDaemon;
  readonly check: ReceiverCheck;
  readonly broken: Set<string>;
}

async function withReceiver<T>(
  { daemon, check }: Run,
  use: (receiver: StartedReceiver) => Promise<T>,
): Promise<T> {
  const receiver = await check.start(daemon.webhookSecret);
  try {
    return await use(receiver);
  } finally {
    await daemon.faults({});
    await receiver.stop?.();
  }
}

/** Sends one webhook after the other, then forged ones; the effects of the genuine ones, or null where they are not right. */
async function takeInOrder(run: Run, receiver: StartedReceiver): Promise<string | null> {
  const { daemon, broken } = run;
  let effects = await effectsOf(receiver);
  for (let number = 1; number <= TASKS; number++) {
    const id = await post(run, { receiver, number });
    await daemon.advance("1ms");
    if (!(await isDelivered(daemon, id))) broken.add(REFUSES);
    const before = effects;
    effects = await effectsOf(receiver);
    if (effects === before) broken.add(ANSWERS_FIRST);
    if (broken.has(REFUSES)) broken.delete(ANSWERS_FIRST);
    if (broken.size > 0) return null;
  }
  await sendForged(run, receiver);
  return effects;
}

async function sendForged(
  { daemon, check, broken }: Run,
  receiver: StartedReceiver,
): Promise<void> {
  const inbox = daemon.inbox(`check-${daemon.login}`);
  await daemon.client.tasks.post({ ...check.task(1), postback_url: inbox.url });
  const genuine = await inbox.next();
  const before = await effectsOf(receiver);
  const statuses: number[] = [];
  for (const forged of await forgeries(genuine)) statuses.push(await send(receiver.url, forged));
  const [, status] = statuses;
  const isTaken = statuses.some(isSuccess) || (await effectsOf(receiver)) !== before;
  if (isTaken) broken.add(UNVERIFIED);
  // The first is not JSON, which only a receiver that parses it can detect.
  else if (statuses[0] !== status) broken.add(PARSES_FIRST);
  const spaced = await resigned(genuine, {
    body: `${genuine.body}\n`,
    secret: daemon.webhookSecret,
  });
  if (!isSuccess(await send(receiver.url, spaced))) broken.add(NOT_RAW);
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Of each two the newer one comes first, and the older one a second later. */
async function takeInPairs(run: Run, receiver: StartedReceiver): Promise<void> {
  const { daemon } = run;
  for (let number = 1; number < TASKS; number += 2) {
    await daemon.faults({ delay_ms: 1000 });
    await post(run, { receiver, number });
    await daemon.advance("1ms");
    await daemon.faults({});
    await post(run, { receiver, number: number + 1 });
    await daemon.advance("1s");
  }
}

async function post(
  { daemon, check }: Run,
  { receiver: { url }, number }: { readonly receiver: StartedReceiver; readonly number: number },
): Promise<string> {
  return (await daemon.client.tasks.post({ ...check.task(number), postback_url: url })).id;
}

/** Each when the first webhook of the one before has come. */
async function postInOrder(run: Run, receiver: StartedReceiver): Promise<string[]> {
  const ids: string[] = [];
  for (let number = 1; number <= TASKS; number++) {
    ids.push(await post(run, { receiver, number }));
    await run.daemon.advance("1ms");
  }
  return ids;
}

async function postAtOnce({ daemon, check }: Run, { url }: StartedReceiver): Promise<string[]> {
  const numbers = Array.from({ length: TASKS }, (_, index) => index + 1);
  const tasks = numbers.map((number) => ({ ...check.task(number), postback_url: url }));
  return (await daemon.client.tasks.postMany(tasks)).map(({ id }) => id);
}

async function isDelivered({ client }: TestDaemon, id: string): Promise<boolean> {
  return (await client.tasks.deliveries(id)).every(({ state }) => state === "delivered");
}

async function effectsOf(receiver: StartedReceiver): Promise<string> {
  return textOf(await receiver.effects());
}

function textOf(effects: unknown): string {
  const text: string | undefined = JSON.stringify(effects, (_key, value: unknown) =>
    isCollection(value) ? [...value].map(textOf).toSorted() : value,
  );
  return text ?? "";
}

function isCollection(value: unknown): value is Iterable<unknown> {
  return /^\[object (?:Map|Set)\]$/.test(Object.prototype.toString.call(value));
}

/** A request to a receiver that the daemon has not sent. */
export interface Forgery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

type Genuine = Pick<Message, "headers" | "body">;

/** Requests that a receiver must not take: the first is no JSON either. */
export async function forgeries(genuine: Genuine): Promise<readonly Forgery[]> {
  const unsigned = { headers: withoutSignatures(genuine), body: genuine.body };
  const altered = genuine.body.replace(/"status_message":"/, "$&No ");
  return [
    { ...unsigned, body: '{"tasks":' },
    unsigned,
    await resigned(genuine, { body: genuine.body, secret: `whsec_${btoa("another secret")}` }),
    { headers: keptOf(genuine), body: altered },
  ];
}

/** Another body with the headers of a webhook, signed as the daemon does. */
export async function resigned(
  genuine: Genuine,
  { body, secret }: { readonly body: string; readonly secret: string },
): Promise<Forgery> {
  const { "webhook-id": id = "", "webhook-timestamp": timestamp = "" } = genuine.headers;
  const standardKey = Uint8Array.from(atob(secret.replace("whsec_", "")), (each) =>
    each.charCodeAt(0),
  );
  const [mac, standard] = await Promise.all([
    hmac(new TextEncoder().encode(secret), body),
    hmac(standardKey, `${id}.${timestamp}.${body}`),
  ]);
  const hex = [...mac].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const signatures = {
    "x-signature": `sha256=${hex}`,
    "webhook-signature": `v1,${btoa(String.fromCharCode(...standard))}`,
  };
  return { headers: { ...withoutSignatures(genuine), ...signatures }, body };
}

/** Sends it on its own connection, and returns the HTTP status. */
export async function send(url: string, { headers, body }: Forgery): Promise<number> {
  const response = await fetch(url, {
    method: "POST",
    headers: { ...headers, connection: "close" },
    body,
    redirect: "manual",
  });
  await response.arrayBuffer();
  return response.status;
}

/** The headers of a webhook, without those that belong to its own body and connection. */
function keptOf({ headers }: Genuine): Readonly<Record<string, string>> {
  const kept = /^(content-type|user-agent|x-attempt|x-signature.*|webhook-.*)$/;
  return Object.fromEntries(Object.entries(headers).filter(([name]) => kept.test(name)));
}

function withoutSignatures(genuine: Genuine): Readonly<Record<string, string>> {
  const all = Object.entries(keptOf(genuine));
  return Object.fromEntries(all.filter(([name]) => !name.includes("signature")));
}

async function hmac(key: Uint8Array<ArrayBuffer>, message: string): Promise<Uint8Array> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key, algorithm, false, ["sign"]);
  const bytes = new TextEncoder().encode(message);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, bytes));
}
